"""A connection to a database, of which all programs together have at most so many open:

    with connection(lambda: psycopg.connect("dbname=acme"), "acme") as db:
        db.execute(...)

If its place ends meanwhile the connection is closed, so what the block does next with it fails."""

import contextlib
import threading

from places import place


@contextlib.contextmanager
def connection(connect, database: str, **options):
    """`connect()`: opens it; its `close` is called by another thread. `options`: those of `place`."""
    with place({"database": database}, **options) as over:
        opened = connect()

        def close() -> None:
            over.wait()
            opened.close()

        closing = threading.Thread(target=close, daemon=True)
        closing.start()
        try:
            yield opened
        finally:
            over.set()
            closing.join()  # it is closed before another gets the place
