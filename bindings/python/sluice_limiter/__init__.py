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
from typing import Any, NamedTuple

__all__ = ["Decision", "Error", "Handle", "LATEST_TIME", "Limit", "Limiter", "NEVER", "Places", "Refused", "Reservation",
           "Settlement"]

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


_Wake = CFUNCTYPE(None, c_void_p)


class _Options(ctypes.Structure):
    _fields_ = [("size", c_size_t), ("memory_bytes", c_size_t), ("waiting_max", c_size_t), ("limits_max", c_size_t), ("clock", c_void_p),
                ("clock_data", c_void_p), ("wake", _Wake), ("wake_data", c_void_p), ("sweep_thread", c_int32), ("reserved", c_int32),
                ("holds_max", c_size_t), ("hold_ttl_us", c_int64), ("hold_remember_us", c_int64)]


class _Hold(ctypes.Structure):
    _fields_ = [("high", c_uint64), ("low", c_uint64)]


class _Settlement(ctypes.Structure):
    _fields_ = [("used", c_int64), ("returned", c_int64), ("charged", c_int64), ("late", c_int32), ("repeated", c_int32)]


_WaitCallback = CFUNCTYPE(None, c_void_p, c_uint64, POINTER(_Decision))
_ReserveCallback = CFUNCTYPE(None, c_void_p, c_uint64, POINTER(_Decision), POINTER(_Hold), c_int64, c_int64)


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
    hold, numbers = POINTER(_Hold), POINTER(c_int64)
    until = [c_int64, c_int64, _ReserveCallback, c_void_p, c_int64, numbers, numbers, decision, hold, POINTER(c_uint64)]
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
        "sluice_reserve": (c_int32, [c_void_p, POINTER(_Charge), c_size_t, c_int64, c_int64, numbers, numbers, decision, hold]),
        "sluice_reserve_matching": (c_int32, [*entries, c_int64, c_int64, c_int64, numbers, numbers, decision, hold]),
        "sluice_acquire": (c_int32, [c_void_p, POINTER(_Charge), c_size_t, c_int64, c_int64, numbers, numbers, decision, hold]),
        "sluice_acquire_matching": (c_int32, [*entries, c_int64, c_int64, c_int64, numbers, numbers, decision, hold]),
        "sluice_wait_reserve": (c_int32, [c_void_p, POINTER(_Charge), c_size_t, *until]),
        "sluice_wait_reserve_matching": (c_int32, [*entries, c_int64, *until]),
        "sluice_wait_acquire": (c_int32, [c_void_p, POINTER(_Charge), c_size_t, *until]),
        "sluice_wait_acquire_matching": (c_int32, [*entries, c_int64, *until]),
        "sluice_extend": (c_int32, [c_void_p, hold, numbers, c_size_t, c_int64, c_int64, numbers, numbers, decision]),
        "sluice_renew": (c_int32, [c_void_p, hold, c_int64, c_int64, numbers]),
        "sluice_commit": (c_int32, [c_void_p, hold, numbers, c_size_t, c_int64, POINTER(_Settlement), decision]),
        "sluice_release": (c_int32, [c_void_p, hold, c_int64, POINTER(_Settlement), decision]),
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


class Settlement(NamedTuple):
    """What a commit or a release came to, of all charges together."""

    used: int  # units that it is committed with
    returned: int  # units that went back
    charged: int  # units beyond what was reserved, counted now
    late: bool  # of a commit: its end had passed, or it was released
    repeated: bool  # of a commit: it was done before, and this is its answer
    decision: Decision  # of all counters the one that takes longest until it grants a unit


class Refused(Exception):
    """A `with` of a reservation, or of places, that does not fit: `decision` says how long to wait, and nothing was taken."""

    def __init__(self, decision: Decision) -> None:
        self.decision = decision
        super().__init__(f"{decision.remaining} of {decision.limit} units are left")


def _raise(error: _Error) -> None:
    raise Error(error.code, error.message.decode(errors="replace"))


_TIMED_OUT, _TOO_MANY_HOLDS = 8, 17


def _told(code: int, its: _Decision, charged: int = 0) -> Decision:
    if code == _TOO_MANY_HOLDS:
        raise Error(code, "Limiter(holds_max=...) says how many reservations there may be at a time")
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

    def reserve(self, key: str | bytes, cost: int = 1, ttl: float | None = None, now: int | None = None,
                timeout: float | None = None) -> Reservation:
        """Limiter.reserve() of one key."""
        return self._limiter.reserve_all([(self, key, cost)], ttl, now, timeout)

    def places(self, key: str | bytes = "", n: int = 1, lease: float | None = None,
               on_lost: Callable[[Places], object] | None = None, timeout: float | None = None) -> Places:
        """Limiter.places() of one key."""
        return Places(self._limiter, lambda now: self._limiter._acquired([(self, key, n)], lease, now, timeout), on_lost)

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


def _microseconds(ttl: float | None) -> int:
    """Of seconds; 0 of none, which means the limiter's own."""
    if ttl is None:
        return 0
    if not ttl > 0:
        raise ValueError(f"ttl must be more than 0 seconds, not {ttl!r}")
    return _int("ttl in microseconds", max(round(ttl * 1_000_000), 1))


class Reservation:
    """Units that are taken for a while, until it is told what they came to; made by a Limiter or a Handle. `allowed` false: it does not
    fit, and nothing is held. Any thread may use it, one at a time.

        with limiter.reserve({"tenant": "acme"}, 4000, ttl=60) as r:
            ...
            if not r.extend(500).allowed: ...  # the work has to end
            r.commit(used)

    `with` raises Refused where it does not fit. An exception in its body gives all units back, and so does release(). A body that ends
    without commit() or release() has used what it reserved: all of it is committed.

    `decision` is that of the last reserve or extend, `reserved` has the units of each charge that are held, `until` is the end.
    """

    def __init__(self, limiter: Limiter, hold: _Hold, decision: Decision, reserved: Iterable[int], until: int) -> None:
        self._limiter, self._hold, self._settled = limiter, hold, not decision.allowed
        self.decision, self.reserved, self.until = decision, list(reserved), until

    @property
    def allowed(self) -> bool:
        return self.decision.allowed

    def __enter__(self) -> Reservation:
        if not self.allowed:
            raise Refused(self.decision)
        return self

    def __exit__(self, kind: type[BaseException] | None, *_error: object) -> None:
        if self._settled:
            return
        if kind is None:
            self.commit(self.reserved)
            return
        try:
            self.release()
        except Error:
            pass  # it ends by itself, and the body's exception says more

    def extend(self, more: int | Sequence[int], ttl: float | None = None, now: int | None = None) -> Decision:
        """Takes more, for each charge, or nothing: then it is as it was. The end is `ttl` seconds from now, without it as long as at
        first. The Error `hold_ended` or `already_settled`: nothing is held any more."""
        its, units, until = _Decision(), self._units(more), c_int64()
        held = (c_int64 * len(units))()
        code = _library.sluice_extend(self._limiter._pointer, ctypes.byref(self._hold), units, len(units), _microseconds(ttl),
                                      self._limiter._at(now), held, ctypes.byref(until), ctypes.byref(its))
        self.decision = _told(code, its)
        self.reserved, self.until = list(held), until.value if its.allowed else self.until
        return self.decision

    def renew(self, ttl: float | None = None, now: int | None = None) -> int:
        """The end is `ttl` seconds from now, without it as long as at first; returns it. Errors as extend()."""
        until = c_int64()
        _told(_library.sluice_renew(self._limiter._pointer, ctypes.byref(self._hold), _microseconds(ttl), self._limiter._at(now),
                                    ctypes.byref(until)), _Decision())
        self.until = until.value
        return self.until

    def commit(self, used: int | Sequence[int], now: int | None = None) -> Settlement:
        """Says what each charge came to: units that were not used go back, those beyond are charged. After the end it charges all of
        them (`late`), unless the rule ignores that: the Error `hold_ended`."""
        units = self._units(used)
        return self._settle("sluice_commit", units, len(units), now=now)

    def release(self, now: int | None = None) -> Settlement:
        """Gives all units back."""
        return self._settle("sluice_release", now=now)

    def _settle(self, name: str, *units: object, now: int | None) -> Settlement:
        its, told = _Decision(), _Settlement()
        code = getattr(_library, name)(self._limiter._pointer, ctypes.byref(self._hold), *units, self._limiter._at(now),
                                       ctypes.byref(told), ctypes.byref(its))
        decision = _told(code, its)
        self._settled = True
        return Settlement(told.used, told.returned, told.charged, bool(told.late), bool(told.repeated), decision)

    @staticmethod
    def _units(units: int | Sequence[int]) -> ctypes.Array[c_int64]:
        each = units if isinstance(units, Sequence) else [units]
        return (c_int64 * len(each))(*(_int("units", n) for n in each))


class Places:
    """Places, of which at most so many are out at a time (`algorithm: concurrency`), while a `with` runs; made by a Limiter or a Handle.

        with limiter.places("pool", "db") as held:
            while work:
                if held.lost: break  # another holder may have the place
                ...

    `with` acquires them, or raises Refused where too many are out. A thread renews them at a third of their lease; the end of the body
    gives them back. `lost`: the lease has ended all the same, as this process was stopped for longer than that or the place was ended by
    others: the work has to end, since another holder may have the place. `on_lost` is called with this object then, by that thread, once.

    Without `with`: acquire(), renew() and release(); no thread renews then. `until` is the end of the lease. Any thread may use it.
    """

    def __init__(self, limiter: Limiter, acquire: Callable[[int | None], Reservation], on_lost: Callable[[Places], object] | None) -> None:
        self._limiter, self._acquire, self._on_lost = limiter, acquire, on_lost
        self._lock = threading.RLock()  # of the next three
        self._held: Reservation | None = None
        self._lease_us = 0
        self._lost = False
        self._thread: threading.Thread | None = None
        self._leaving = threading.Event()

    def acquire(self, now: int | None = None) -> Decision:
        """Takes the places, or none: `allowed` says which. The Error `no_places`: no limit that applies has places."""
        self._check_free()
        held = self._acquire(now)
        if held.allowed:
            with self._lock:
                try:
                    self._check_free()
                except ValueError:
                    held.release(now)
                    raise
                self._held, self._lease_us, self._lost = held, held.until - self._limiter._at(now), False
        return held.decision

    def _check_free(self) -> None:
        if self._held is not None:
            raise ValueError("the places are held already: release() them, or make others")

    @property
    def until(self) -> int:
        """The end of the lease; 0: nothing is held."""
        with self._lock:
            return 0 if self._held is None else self._held.until

    @property
    def lost(self) -> bool:
        """Has the lease ended before release()? Then it is not renewed any more."""
        with self._lock:
            return self._lost or (self._held is not None and self._limiter.now() >= self._held.until)

    def renew(self, lease: float | None = None, now: int | None = None) -> int:
        """The lease ends `lease` seconds from now, without it as long as at first; returns the end. The Error `hold_ended`: they are
        lost."""
        with self._lock:
            return self._its().renew(lease, now)

    def release(self, now: int | None = None) -> int:
        """Gives the places back; returns how many. 0: the lease had ended."""
        with self._lock:
            returned = self._its().release(now).returned
            self._held = None
            return returned

    def _its(self) -> Reservation:
        if self._held is None:
            raise ValueError("no places are held: acquire() them")
        return self._held

    def __enter__(self) -> Places:
        decision = self.acquire()
        if not decision.allowed:
            raise Refused(decision)
        self._leaving.clear()
        self._thread = threading.Thread(target=self._keep, name="sluice_limiter places", daemon=True)
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, *_error: object) -> None:
        self._leaving.set()
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join()
        self._thread = None
        with self._lock:
            if self._held is None:
                return
            try:
                self.release()
            except Error:
                self._held = None
                if kind is None:
                    raise
                # the lease ends by itself, and the body's exception says more

    def _keep(self) -> None:
        """Renews at a third of the lease, or of what is left of it where that failed, as for want of memory."""
        pause = self._lease_us / 3_000_000
        while not self._leaving.wait(pause):
            with self._lock:
                if self._held is None:
                    return
                try:
                    self._held.renew()
                    pause = self._lease_us / 3_000_000
                except Error as error:
                    left = self._held.until - self._limiter.now()
                    if left > 0 and error.name not in ("hold_ended", "no_such_hold", "already_settled", "invalid_argument"):
                        pause = max(left / 3_000_000, 0.001)
                        continue
                    self._lost = True
            if self._lost:
                if self._on_lost is not None:
                    self._on_lost(self)
                return


def _report(error: BaseException) -> None:
    """To sys.unraisablehook, where ctypes brings what a function raises that it calls."""
    def callback_of_a_wait() -> None:
        raise error
    CFUNCTYPE(None)(callback_of_a_wait)()


def _held(limiter: weakref.ref[Limiter]) -> Callable[..., None]:
    def note(_data: int | None, number: int, decision: POINTER(_Decision), hold: POINTER(_Hold), reserved: int, until: int) -> None:
        its, name, owner = decision.contents, hold.contents, limiter()
        if owner is not None:
            owner._answers.append((number, Error(its.error) if its.error not in (0, _TIMED_OUT) else Reservation(
                owner, _Hold(name.high, name.low), _outcome(its), [reserved], until)))
    return note


def _woken(limiter: weakref.ref[Limiter]) -> Callable[..., None]:
    def note(_data: int | None) -> None:
        owner = limiter()
        if owner is not None:
            owner._note_due()
    return note


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
    `holds_max`: reservations and places at a time; 0: none.
    """

    _pointer: int | None = None
    _durable: int | None = None

    def __init__(self, policy: str | None = None, path: str | None = None, *, directory: str | None = None, sync: bool = False,
                 commit_every_us: int = 0, holds_max: int = 0) -> None:
        error = _Error()
        # What ended each wait that has no answer, and the functions that the library calls.
        self._waiting: dict[int, Callable[[Any], object]] = {}
        self._answers: deque[tuple[int, Decision | Reservation | Error]] = deque()  # any thread appends, without the lock
        self._lock = threading.Lock()
        self._callback = _WaitCallback(_answered(weakref.ref(self)))
        self._held_callback = _ReserveCallback(_held(weakref.ref(self)))
        self._wake = _Wake(_woken(weakref.ref(self)))
        # Threads that wait for a reservation: one of them calls run_due() once something is due.
        self._due, self._is_due = threading.Condition(), False
        options = _Options(ctypes.sizeof(_Options), wake=self._wake, holds_max=_int("holds_max", holds_max, 0, 2**64 - 1))
        how = ctypes.byref(options)
        if directory is not None:
            self._open(directory, sync, commit_every_us, options)
            if policy is not None:
                self.reload(policy)
            elif path is not None and _library.sluice_reload_file(self._pointer, _path("path", path), self.now(), ctypes.byref(error)) != 0:
                _raise(error)
        elif policy is not None:
            text = _bytes(policy)
            self._pointer = _library.sluice_create_from_text(text, len(text), b"policy", how, ctypes.byref(error))
        elif path is not None:
            self._pointer = _library.sluice_create_from_file(_path("path", path), how, ctypes.byref(error))
        else:
            self._pointer = _library.sluice_create(how, ctypes.byref(error))
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

    def _open(self, directory: str, sync: bool, commit_every_us: int, options: _Options) -> None:
        if not hasattr(_library, "sluice_durable_open"):
            raise RuntimeError("a directory needs libsluice-durable: set SLUICE_LIMITER_LIBRARY=libsluice-durable.so.0.2")
        error = _Error()
        where = _DurableOptions(ctypes.sizeof(_DurableOptions), _path("directory", directory), _int("commit_every_us", commit_every_us),
                                None, None, int(bool(sync)), 0)
        self._durable = _library.sluice_durable_open(ctypes.byref(where), ctypes.byref(options), ctypes.byref(error))
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

    def reserve(self, descriptor: dict[str, str], cost: int = 1, ttl: float | None = None, now: int | None = None,
                timeout: float | None = None) -> Reservation:
        """Takes the cost for `ttl` seconds, without it for 60, until the reservation is told what it came to. It ends by itself: then
        its units go back, or count as used where a rule says `on_expiry: keep`. A rule's `max_ttl` and `max_fraction` cut what is
        asked for. Needs `holds_max`; the Error `too_many_holds`: as many are held.

        `timeout`: this thread waits for so many seconds at most until there is enough, in order of arrival with all that waits; then it
        is as without it. It calls run_due() meanwhile, and so callbacks of waits. Of several charges `reserved` has one number then, of
        all together."""
        entries, held = self._entries(descriptor), (c_int64 * 1)()
        return self._reserved("reserve_matching", held, entries, len(entries), _int("cost", cost), ttl=ttl, now=now, timeout=timeout)

    def reserve_all(self, charges: Iterable[tuple[Handle, str | bytes, int]], ttl: float | None = None,
                    now: int | None = None, timeout: float | None = None) -> Reservation:
        """The same of every charge, a handle with a key and a cost, or of none of them."""
        all_of_them, kept = self._charges(charges)
        return self._reserved("reserve", (c_int64 * len(kept))(), all_of_them, len(kept), ttl=ttl, now=now, timeout=timeout)

    def places(self, pool: str | dict[str, str], key: str | bytes = "", n: int = 1, lease: float | None = None,
               on_lost: Callable[[Places], object] | None = None, timeout: float | None = None) -> Places:
        """`n` places of the rule `pool` and the actor `key`, or of the rules that a descriptor meets, for a `with`: it acquires them, a
        thread renews them at a third of their lease, and the end of the body gives them back. `lease`: seconds; without it as long as
        the rule says, and at most its `max_lease`. `timeout`: seconds to wait for them, as of reserve(). Needs `holds_max`. Leave
        each `with` before close()."""
        if isinstance(pool, str):
            return self.find(pool).places(key, n, lease, on_lost, timeout)
        entries = self._entries(pool)
        return Places(self, lambda now: self._reserved("acquire_matching", (c_int64 * 1)(), entries, len(entries), _int("n", n),
                                                       ttl=lease, now=now, timeout=timeout), on_lost)

    def _acquired(self, charges: Iterable[tuple[Handle, str | bytes, int]], lease: float | None, now: int | None,
                  timeout: float | None) -> Reservation:
        all_of_them, kept = self._charges(charges)
        return self._reserved("acquire", (c_int64 * len(kept))(), all_of_them, len(kept), ttl=lease, now=now, timeout=timeout)

    def _reserved(self, name: str, held: ctypes.Array[c_int64], *asked: object, ttl: float | None, now: int | None,
                  timeout: float | None) -> Reservation:
        its, hold, until = _Decision(), _Hold(), c_int64()
        told = (ctypes.byref(until), ctypes.byref(its), ctypes.byref(hold))
        if timeout is None:
            code = getattr(_library, f"sluice_{name}")(self._pointer, *asked, _microseconds(ttl), self._at(now), held, *told)
            return Reservation(self, hold, _told(code, its), held, until.value)
        if now is not None:
            raise ValueError("a timeout is of the limiter's clock: leave `now` out")
        begun = self.now()
        deadline = min(begun + max(round(timeout * 1_000_000), 0), LATEST_TIME)
        number, total = c_uint64(), c_int64()
        ended: list[Reservation | Error] = []
        with self._lock:  # run_due() looks the number up
            code = getattr(_library, f"sluice_wait_{name}")(self._pointer, *asked, _microseconds(ttl), deadline, self._held_callback, None,
                                                            begun, ctypes.byref(total), *told, ctypes.byref(number))
            if number.value != 0:
                self._waiting[number.value] = self._ends(ended)
        if number.value == 0:
            return Reservation(self, hold, _told(0 if code == _TIMED_OUT else code, its), [total.value], until.value)
        answer = self._await(number.value, ended, deadline)
        if isinstance(answer, Error):
            raise answer
        return answer

    def _ends(self, ended: list[Reservation | Error]) -> Callable[[Reservation | Error], None]:
        def end(answer: Reservation | Error) -> None:
            with self._due:
                ended.append(answer)
                self._due.notify_all()
        return end

    def _note_due(self) -> None:
        """Has one of the threads that wait call run_due()."""
        with self._due:
            self._is_due = True
            self._due.notify_all()

    def _await(self, number: int, ended: list[Reservation | Error], deadline: int) -> Reservation | Error:
        """The answer of that wait, which its callback appends to the list."""
        try:
            while True:
                due = min(self.run_due(), deadline)
                with self._due:
                    if not ended and not self._is_due:
                        self._due.wait(max(due - self.now(), 0) / 1_000_000)
                    if ended:
                        self._due.notify_all()  # others look when something is due next
                        return ended[0]
                    self._is_due = False
        except BaseException:
            if not self.cancel(number):
                self.run_due()  # it has its answer
                if ended and isinstance(ended[0], Reservation):
                    ended[0].release()
            raise

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
