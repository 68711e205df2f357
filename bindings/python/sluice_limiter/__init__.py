"""Rate limits and quotas inside a Python program, by libsluice-limiter's C interface (sluice/sluice.h).

The library is the file that SLUICE_LIMITER_LIBRARY names, or the one beside this file, which a wheel has, or is found as the
system finds libraries; name libsluice-durable there to keep counters in a directory. Times are whole
microseconds since the Unix epoch; without one the limiter's clock is read. Any number of threads may use a Limiter.
Callbacks of waits are called by the thread that calls run_due(), and may call everything.

Keys and the texts of descriptors are str, as UTF-8, or bytes, and may have any byte; a zero byte in another text is a ValueError.
An integer that the library has no room for is an OverflowError.
"""

from __future__ import annotations

import ctypes
import operator
import os
import threading
import weakref
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from ctypes import CFUNCTYPE, POINTER, c_char, c_char_p, c_int32, c_int64, c_size_t, c_uint64, c_void_p
from typing import NamedTuple

__all__ = ["Decision", "Error", "Handle", "LATEST_TIME", "Limit", "Limiter", "NEVER"]

NEVER = 2**63 - 1
LATEST_TIME = 2**61
_NO_OVERDRAFT = 2**53 - 1
ALGORITHMS = ("token_bucket", "fixed_window", "aligned_window", "sliding_window", "sliding_log", "fixed_bucket", "concurrency")


class _Error(ctypes.Structure):
    _fields_ = [("code", c_int32), ("message", c_char * 1020)]


class _Limit(ctypes.Structure):
    _fields_ = [("quota", c_int64), ("window_us", c_int64), ("burst", c_int64), ("algorithm", c_int32),
                ("calendar", c_int32)]


class _Decision(ctypes.Structure):
    _fields_ = [("allowed", c_int32), ("matched", c_int32), ("error", c_int32), ("over", c_int32),
                ("limit", c_int64), ("remaining", c_int64), ("retry_after_us", c_int64), ("reset_after_us", c_int64)]


class _DurableOptions(ctypes.Structure):
    _fields_ = [("size", c_size_t), ("directory", c_char_p), ("commit_every_us", c_int64), ("tell", c_void_p), ("tell_data", c_void_p),
                ("sync", c_int32), ("reserved", c_int32)]


class _Entry(ctypes.Structure):
    _fields_ = [("key", c_char_p), ("key_bytes", c_size_t), ("value", c_char_p), ("value_bytes", c_size_t)]


class _Charge(ctypes.Structure):
    _fields_ = [("by", c_void_p), ("key", c_char_p), ("key_bytes", c_size_t), ("cost", c_int64)]


_WaitCallback = CFUNCTYPE(None, c_void_p, c_uint64, POINTER(_Decision))


_INSTALLED = "libsluice-limiter.so.0.2"


def _open_library() -> ctypes.CDLL:
    named = os.environ.get("SLUICE_LIMITER_LIBRARY")
    beside = os.path.join(os.path.dirname(os.path.abspath(__file__)), "libsluice-limiter.so")
    name = named or (beside if os.path.exists(beside) else _INSTALLED)
    try:
        return ctypes.CDLL(name)
    except OSError as error:
        places = (f"SLUICE_LIMITER_LIBRARY={named}" if named
                  else f"{beside}; {_INSTALLED} where the system looks for libraries (LD_LIBRARY_PATH, ldconfig)")
        raise ImportError(
            f"sluice_limiter needs the library libsluice-limiter, which cannot be loaded ({error}). Looked for: {places}. Install the "
            "wheel of a release, which has it inside (`pip install sluice_limiter-*.whl`), or the library (`make install` in a checkout "
            "of sluice, then `ldconfig`), or let SLUICE_LIMITER_LIBRARY name its file.", name="sluice_limiter", path=name) from error


def _load() -> ctypes.CDLL:
    library = _open_library()
    error, decision = POINTER(_Error), POINTER(_Decision)
    key = [c_void_p, c_void_p, c_char_p, c_size_t]
    entries = [c_void_p, POINTER(_Entry), c_size_t]
    functions = {
        "sluice_version": (c_char_p, []),
        "sluice_error_name": (c_char_p, [c_int32]),
        "sluice_create": (c_void_p, [c_void_p, error]),
        "sluice_create_from_text": (c_void_p, [c_char_p, c_size_t, c_char_p, c_void_p, error]),
        "sluice_create_from_file": (c_void_p, [c_char_p, c_void_p, error]),
        "sluice_destroy": (None, [c_void_p]),
        "sluice_durable_open": (c_void_p, [POINTER(_DurableOptions), c_void_p, error]),
        "sluice_durable_limiter": (c_void_p, [c_void_p]),
        "sluice_durable_commit": (c_int32, [c_void_p, error]),
        "sluice_durable_close": (None, [c_void_p]),
        "sluice_reload_file": (c_int32, [c_void_p, c_char_p, c_int64, error]),
        "sluice_find": (c_void_p, [c_void_p, c_char_p, error]),
        "sluice_calendar": (c_int32, [c_char_p, error]),
        "sluice_limits_with_overdraft": (c_void_p, [c_void_p, c_char_p, POINTER(_Limit), POINTER(c_int64), c_size_t, error]),
        "sluice_handle_destroy": (None, [c_void_p]),
        "sluice_take": (c_int32, [*key, c_int64, c_int64, decision]),
        "sluice_would_take": (c_int32, [*key, c_int64, c_int64, decision]),
        "sluice_put": (c_int32, [*key, c_int64, c_int64, decision]),
        "sluice_peek": (c_int32, [*key, c_int64, decision]),
        "sluice_reset": (c_int32, [*key, c_int64, decision]),
        "sluice_take_matching": (c_int32, [*entries, c_int64, c_int64, decision]),
        "sluice_put_matching": (c_int32, [*entries, c_int64, c_int64, decision]),
        "sluice_peek_matching": (c_int32, [*entries, c_int64, decision]),
        "sluice_reload_text": (c_int32, [c_void_p, c_char_p, c_size_t, c_char_p, c_int64, error]),
        "sluice_charge_matching_counted": (c_int32, [*entries, c_int64, c_int64, POINTER(c_int64), decision]),
        "sluice_charge_all_counted": (c_int32, [c_void_p, POINTER(_Charge), c_size_t, c_int64, POINTER(c_int64), c_void_p, decision]),
        "sluice_take_all": (c_int32, [c_void_p, POINTER(_Charge), c_size_t, c_int64, c_void_p, decision]),
        "sluice_wait": (c_int32, [c_void_p, POINTER(_Charge), c_size_t, c_int64, _WaitCallback, c_void_p, c_int64, decision,
                                  POINTER(c_uint64)]),
        "sluice_cancel": (c_int32, [c_void_p, c_uint64, c_int64]),
        "sluice_run_due": (c_size_t, [c_void_p, c_int64, POINTER(c_int64)]),
        "sluice_set_override": (c_int32, [c_void_p, c_char_p, POINTER(c_char_p), c_size_t, POINTER(_Limit), c_size_t, c_int64,
                                          c_int64, error]),
        "sluice_remove_override": (c_int32, [c_void_p, c_char_p, POINTER(c_char_p), c_size_t, c_int64, error]),
        "sluice_sweep": (None, [c_void_p, c_size_t, c_int64]),
        "sluice_now": (c_int64, [c_void_p]),
    }
    for name, (result, arguments) in functions.items():
        if name.startswith("sluice_durable_") and not hasattr(library, name):
            continue  # libsluice-limiter
        try:
            function = getattr(library, name)
        except AttributeError as error:
            raise ImportError(f"{library._name} is not the library that this version of sluice_limiter needs: it has no {name}. "
                              f"Install {_INSTALLED}, or let SLUICE_LIMITER_LIBRARY name it.",
                              name="sluice_limiter", path=library._name) from error
        function.restype, function.argtypes = result, arguments
    return library


_library = _load()


class Error(Exception):
    """What the library refused: `code` is a sluice_errc, `name` its word."""

    def __init__(self, code: int, message: str = "") -> None:
        self.code = code
        self.name = _library.sluice_error_name(code).decode()
        super().__init__(f"{self.name}: {message}" if message else self.name)


class Limit(NamedTuple):
    """A limit in code: units in each window of so many microseconds; or, with a `window_us` of 0, in each window of the calendar,
    as "month@Europe/Berlin" or "month@Asia/Tokyo,month_day=15,starts_at=06:00" (the keys of policies). `overdraft`: the most units that
    charge() leaves owed, if there is such a bound; not of an override, which keeps that of the rule."""

    quota: int
    window_us: int = 0
    algorithm: str = "token_bucket"
    burst: int = 0
    calendar: str = ""
    overdraft: int | None = None


class Decision(NamedTuple):
    """What was decided; NEVER in a time: there is no such moment. `remaining` below 0 is a debt: units used beyond the limit."""

    allowed: bool
    matched: bool
    limit: int
    remaining: int
    retry_after_us: int
    reset_after_us: int
    over: bool = False  # of a charge: a limit is in debt
    charged: int = 0  # of a charge: the units that all limits counted; of several charges the sum


def _raise(error: _Error) -> None:
    raise Error(error.code, error.message.decode(errors="replace"))


def _told(code: int, its: _Decision, charged: int = 0) -> Decision:
    if code != 0:
        raise Error(code)
    return _outcome(its, charged)


def _outcome(its: _Decision, charged: int = 0) -> Decision:
    return Decision(bool(its.allowed), bool(its.matched), its.limit, its.remaining, its.retry_after_us,
                    its.reset_after_us, bool(its.over), charged)


def _int(what: str, value: int, least: int = -2**63, most: int = 2**63 - 1) -> int:
    """`value`, which ctypes would cut to its low bits without a word."""
    number = operator.index(value)
    if not least <= number <= most:
        raise OverflowError(f"{what} must be {least} to {most}, not {number}")
    return number


def _limits(limits: Sequence[Limit]) -> ctypes.Array[_Limit]:
    return (_Limit * len(limits))(*(
        _Limit(_int("quota", one.quota), _int("window_us", one.window_us), _int("burst", one.burst), _algorithm(one.algorithm),
               _calendar(one.calendar))
        for one in limits))


def _calendar(text: str) -> int:
    if not text:
        return 0
    error = _Error()
    number: int = _library.sluice_calendar(text.encode(), ctypes.byref(error))
    if number == 0:
        _raise(error)
    return number


def _algorithm(name: str) -> int:
    if name not in ALGORITHMS:
        raise ValueError(f"algorithm must be one of {', '.join(ALGORITHMS)}, not {name!r}")
    return ALGORITHMS.index(name)


def _bytes(text: str | bytes) -> bytes:
    return text.encode() if isinstance(text, str) else text


def _path(what: str, path: str | bytes | os.PathLike[str]) -> bytes:
    return _c_text(what, os.fsencode(path))


def _c_text(what: str, text: str | bytes) -> bytes:
    """A text that ends with a zero byte for the library, which would take one inside it for its end."""
    whole = _bytes(text)
    if b"\0" in whole:
        raise ValueError(f"{what} must not have a zero byte: {text!r}")
    return whole


def _actor(values: Sequence[str | bytes]) -> ctypes.Array[c_char_p]:
    return (c_char_p * len(values))(*(_c_text("actor", value) for value in values))


class Handle:
    """A rule or limits in code, resolved once; made by a Limiter."""

    def __init__(self, limiter: Limiter, pointer: int) -> None:
        self._limiter, self._pointer = limiter, pointer

    def __del__(self) -> None:
        _library.sluice_handle_destroy(self._pointer)

    def _ask(self, name: str, key: str | bytes, *numbers: int, now: int | None) -> Decision:
        its, text = _Decision(), _bytes(key)
        function = getattr(_library, name)
        return _told(function(self._limiter._pointer, self._pointer, text, len(text), *numbers, self._limiter._at(now),
                              ctypes.byref(its)), its)

    def take(self, key: str | bytes, cost: int = 1, now: int | None = None) -> Decision:
        return self._ask("sluice_take", key, _int("cost", cost), now=now)

    def charge(self, key: str | bytes, cost: int = 1, now: int | None = None) -> Decision:
        """Counts units that were used already, whatever is left; never refused. `over`: a limit is in debt."""
        return self._limiter.charge_all([(self, key, cost)], now)

    def would_take(self, key: str | bytes, cost: int = 1, now: int | None = None) -> Decision:
        return self._ask("sluice_would_take", key, _int("cost", cost), now=now)

    def put(self, key: str | bytes, units: int = 1, now: int | None = None) -> Decision:
        return self._ask("sluice_put", key, _int("units", units), now=now)

    def peek(self, key: str | bytes, now: int | None = None) -> Decision:
        return self._ask("sluice_peek", key, now=now)

    def reset(self, key: str | bytes, now: int | None = None) -> Decision:
        return self._ask("sluice_reset", key, now=now)


def _report(error: BaseException) -> None:
    """To sys.unraisablehook, where ctypes brings what a function raises that it calls."""
    def callback_of_a_wait() -> None:
        raise error
    CFUNCTYPE(None)(callback_of_a_wait)()


def _answered(limiter: weakref.ref[Limiter]) -> Callable[..., None]:
    def note(_data: int | None, number: int, decision: POINTER(_Decision)) -> None:
        its, owner = decision.contents, limiter()
        if owner is not None:
            owner._answers.append((number, Error(its.error) if its.error != 0 else _outcome(its)))
    return note


class Limiter:
    """A limiter, with the rules of a text or of a file, or with limits in code alone.

    With a `directory` (and libsluice-durable) its counters are kept there: commit() returns when all that was decided before is
    kept. `commit_every_us`: a thread commits as often as well; 0: none. `sync`: a commit survives a power failure. `with` closes it.
    """

    _pointer: int | None = None
    _durable: int | None = None

    def __init__(self, policy: str | None = None, path: str | None = None, *, directory: str | None = None, sync: bool = False,
                 commit_every_us: int = 0) -> None:
        error = _Error()
        # What ended each wait that has no answer, and the one function of the library's that it is called through.
        self._waiting: dict[int, Callable[[Decision | Error], object]] = {}
        self._answers: deque[tuple[int, Decision | Error]] = deque()  # any thread appends, without the lock
        self._lock = threading.Lock()
        self._callback = _WaitCallback(_answered(weakref.ref(self)))
        if directory is not None:
            self._open(directory, sync, commit_every_us)
            if policy is not None:
                self.reload(policy)
            elif path is not None and _library.sluice_reload_file(self._pointer, _path("path", path), self.now(), ctypes.byref(error)) != 0:
                _raise(error)
        elif policy is not None:
            text = _bytes(policy)
            self._pointer = _library.sluice_create_from_text(text, len(text), b"policy", None, ctypes.byref(error))
        elif path is not None:
            self._pointer = _library.sluice_create_from_file(_path("path", path), None, ctypes.byref(error))
        else:
            self._pointer = _library.sluice_create(None, ctypes.byref(error))
        if not self._pointer:
            _raise(error)

    def __enter__(self) -> Limiter:
        return self

    def __exit__(self, *_error: object) -> None:
        self.close()

    def __del__(self) -> None:
        self.close()

    def close(self) -> None:
        """Ends it: every later call is the Error `invalid_argument`. What is not in the directory yet is committed; the Error says why
        some of it could not be, and is lost. No thread may be in a call of it."""
        pointer, durable = self._pointer, self._durable
        try:
            self.commit()
        finally:
            self._pointer = self._durable = None
            if durable is not None:
                _library.sluice_durable_close(durable)
            else:
                _library.sluice_destroy(pointer)

    def _open(self, directory: str, sync: bool, commit_every_us: int) -> None:
        if not hasattr(_library, "sluice_durable_open"):
            raise RuntimeError("a directory needs libsluice-durable: set SLUICE_LIMITER_LIBRARY=libsluice-durable.so.0.2")
        error = _Error()
        where = _DurableOptions(ctypes.sizeof(_DurableOptions), _path("directory", directory), _int("commit_every_us", commit_every_us),
                                None, None, int(bool(sync)), 0)
        self._durable = _library.sluice_durable_open(ctypes.byref(where), None, ctypes.byref(error))
        if not self._durable:
            _raise(error)
        self._pointer = _library.sluice_durable_limiter(self._durable)

    def commit(self) -> None:
        """Returns when all that was decided before is kept in the directory. Without a directory nothing happens."""
        error = _Error()
        if self._durable is not None and _library.sluice_durable_commit(self._durable, ctypes.byref(error)) != 0:
            _raise(error)

    def _handle(self, pointer: int | None, error: _Error) -> Handle:
        if not pointer:
            _raise(error)
        return Handle(self, pointer)

    def find(self, rule: str) -> Handle:
        error = _Error()
        return self._handle(_library.sluice_find(self._pointer, _c_text("rule", rule), ctypes.byref(error)), error)

    def limits(self, name: str, *limits: Limit) -> Handle:
        error = _Error()
        overdrafts = (c_int64 * len(limits))(*(_NO_OVERDRAFT if one.overdraft is None else _int("overdraft", one.overdraft, 0, _NO_OVERDRAFT)
                                               for one in limits))
        pointer = _library.sluice_limits_with_overdraft(self._pointer, _c_text("name", name), _limits(limits), overdrafts, len(limits),
                                                        ctypes.byref(error))
        return self._handle(pointer, error)

    @staticmethod
    def _entries(descriptor: dict[str, str]) -> ctypes.Array[_Entry]:
        pairs = [(_bytes(key), _bytes(value)) for key, value in descriptor.items()]
        return (_Entry * len(pairs))(*(_Entry(key, len(key), value, len(value)) for key, value in pairs))

    def _ask(self, name: str, descriptor: dict[str, str], *numbers: int, now: int | None) -> Decision:
        its, entries = _Decision(), self._entries(descriptor)
        return _told(getattr(_library, name)(self._pointer, entries, len(entries), *numbers, self._at(now), ctypes.byref(its)), its)

    def take(self, descriptor: dict[str, str], cost: int = 1, now: int | None = None) -> Decision:
        return self._ask("sluice_take_matching", descriptor, _int("cost", cost), now=now)

    def charge(self, descriptor: dict[str, str], cost: int = 1, now: int | None = None) -> Decision:
        """Counts units that were used already, by every rule by which a take is charged; never refused."""
        its, entries, charged = _Decision(), self._entries(descriptor), c_int64()
        code = _library.sluice_charge_matching_counted(self._pointer, entries, len(entries), _int("cost", cost), self._at(now),
                                                       ctypes.byref(charged), ctypes.byref(its))
        return _told(code, its, charged.value)

    def put(self, descriptor: dict[str, str], units: int = 1, now: int | None = None) -> Decision:
        return self._ask("sluice_put_matching", descriptor, _int("units", units), now=now)

    def peek(self, descriptor: dict[str, str], now: int | None = None) -> Decision:
        return self._ask("sluice_peek_matching", descriptor, now=now)

    def reload(self, policy: str) -> None:
        error, text = _Error(), _bytes(policy)
        if _library.sluice_reload_text(self._pointer, text, len(text), b"policy", self.now(), ctypes.byref(error)) != 0:
            _raise(error)

    def take_all(self, charges: Iterable[tuple[Handle, str | bytes, int]], now: int | None = None) -> Decision:
        """Takes every charge, a handle with a key and a cost, or none of them."""
        its, (all_of_them, kept) = _Decision(), self._charges(charges)
        return _told(_library.sluice_take_all(self._pointer, all_of_them, len(kept), self._at(now), None, ctypes.byref(its)), its)

    def charge_all(self, charges: Iterable[tuple[Handle, str | bytes, int]], now: int | None = None) -> Decision:
        """Counts units that were used already: every charge, a handle with a key and a cost."""
        its, (all_of_them, kept) = _Decision(), self._charges(charges)
        charged = (c_int64 * len(kept))()
        code = _library.sluice_charge_all_counted(self._pointer, all_of_them, len(kept), self._at(now), charged, None, ctypes.byref(its))
        return _told(code, its, sum(charged))

    def wait(self, charges: Iterable[tuple[Handle, str | bytes, int]], deadline: int,
             callback: Callable[[Decision | Error], object], now: int | None = None) -> Decision | int:
        """Takes every charge as soon as it can: the decision, if it is made at once, or a number for cancel().

        Then `callback` is called once, in run_due(), with the decision, or with the Error `timed_out` or `unknown_rule`.
        """
        its, number, (all_of_them, kept) = _Decision(), c_uint64(), self._charges(charges)
        at, deadline = self._at(now), _int("deadline", deadline)
        with self._lock:  # run_due() looks the number up
            code = _library.sluice_wait(self._pointer, all_of_them, len(kept), deadline, self._callback, None, at, ctypes.byref(its),
                                        ctypes.byref(number))
            if number.value != 0:
                self._waiting[number.value] = callback
                return number.value
        return _told(code, its)

    def cancel(self, number: int, now: int | None = None) -> bool:
        """Ends a wait without its callback; false: it has its answer."""
        ended = _library.sluice_cancel(self._pointer, _int("number", number, 0, 2**64 - 1), self._at(now)) == 1
        if ended:
            with self._lock:
                self._waiting.pop(number, None)
        return ended

    def run_due(self, now: int | None = None) -> int:
        """Calls the callbacks of waits that have ended. Returns when it has to be called again, or LATEST_TIME.

        What a callback raises is raised here, when the others have been called. If several raise, one is raised: the first, or one that
        is no Exception; the others go to sys.unraisablehook, which prints them.
        """
        due = c_int64()
        _library.sluice_run_due(self._pointer, self._at(now), ctypes.byref(due))
        raised: BaseException | None = None
        # One at a time: what an interrupt leaves is for the next call.
        while (ended := self._next_answer()) is not None:
            callback, answer = ended
            try:
                callback(answer)
            except BaseException as error:  # noqa: BLE001
                if raised is None:
                    raised = error
                    continue
                # One that is no Exception, as KeyboardInterrupt, goes before those that are.
                goes_first = isinstance(raised, Exception) and not isinstance(error, Exception)
                raised, other = (error, raised) if goes_first else (raised, error)
                _report(other)
        if raised is not None:
            raise raised
        return due.value

    def _next_answer(self) -> tuple[Callable[[Decision | Error], object], Decision | Error] | None:
        with self._lock:
            if not self._answers:
                return None
            number, answer = self._answers.popleft()
            return self._waiting.pop(number), answer

    def set_override(self, rule: str, actor: Sequence[str], *limits: Limit, until: int = LATEST_TIME,
                     now: int | None = None) -> None:
        """Puts limits in place of the rule's for an actor, with a value for each of its entries: a text, in which `*` is any text, a
        network as `cidr(10.0.0.0/8)`, a list as `[alice, bob]`, or `exact(TEXT)`."""
        if any(one.overdraft is not None for one in limits):
            raise ValueError("an override keeps the overdraft of its rule: leave it out")
        error, values = _Error(), _actor(actor)
        if _library.sluice_set_override(self._pointer, _c_text("rule", rule), values, len(values), _limits(limits), len(limits),
                                        _int("until", until), self._at(now), ctypes.byref(error)) != 0:
            _raise(error)

    def remove_override(self, rule: str, actor: Sequence[str], now: int | None = None) -> None:
        """Takes an override away; the Error `not_found`: there is none."""
        error, values = _Error(), _actor(actor)
        if _library.sluice_remove_override(self._pointer, _c_text("rule", rule), values, len(values), self._at(now),
                                           ctypes.byref(error)) != 0:
            _raise(error)

    @staticmethod
    def _charges(charges: Iterable[tuple[Handle, str | bytes, int]]) -> tuple[ctypes.Array[_Charge], list[object]]:
        """The charges, and what must live as long as they are used."""
        kept = [(by, _bytes(key), _int("cost", cost)) for by, key, cost in charges]
        return (_Charge * len(kept))(*(_Charge(by._pointer, key, len(key), cost) for by, key, cost in kept)), kept

    def sweep(self, steps: int, now: int | None = None) -> None:
        _library.sluice_sweep(self._pointer, _int("steps", steps, 0, 2**64 - 1), self._at(now))

    def now(self) -> int:
        return _library.sluice_now(self._pointer)

    def _at(self, now: int | None) -> int:
        return self.now() if now is None else _int("now", now)
