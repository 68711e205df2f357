"""Tests of check_layers.py on small trees of their own."""

from __future__ import annotations

import subprocess
import sys
import tempfile
import unittest
import unittest.mock
from pathlib import Path

import check_layers

HEADER = "// What it is.\n#pragma once\n"


class CheckLayersTest(unittest.TestCase):
    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = Path(folder.name)
        (self.root / "src").mkdir()

    def write(self, name: str, text: str) -> None:
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")

    def breaches(self) -> list[str]:
        return [f"{b.path.relative_to(self.root)}:{b.line}: {b.text}" for b in check_layers.check(self.root)]

    def test_downward_own_and_foreign_includes_pass(self) -> None:
        self.write(
            "src/store/table.cc",
            '#include "store/table.h"\n#include "limit/limit.h"\n#include "base/time.h"\n'
            "#include <vector>\n#include <sys/mman.h>\n#include <spdlog/spdlog.h>\n",
        )
        self.write("src/main.cc", '#include "cli/cli.h"\n')
        self.assertEqual(self.breaches(), [])

    def test_upward_include_is_refused_with_its_line(self) -> None:
        self.write("src/limit/limit.cc", '#include <vector>\n\n#include "store/table.h"\n')
        self.assertEqual(
            self.breaches(),
            ["src/limit/limit.cc:3: limit must not include store: store/table.h"],
        )

    def test_rooms_that_the_table_does_not_join_are_refused(self) -> None:
        self.write("src/server/a.cc", '#include "client/client.h"\n')
        self.write("src/client/a.cc", '#include "server/server.h"\n')
        self.write("src/wire/a.cc", '#include "policy/rule_set.h"\n')
        self.assertEqual(len(self.breaches()), 3)

    def test_angle_brackets_and_spaces_hide_nothing(self) -> None:
        self.write("src/base/a.cc", "  #  include <server/server.h>\n")
        self.assertEqual(len(self.breaches()), 1)

    def test_nothing_includes_main_by_a_relative_path(self) -> None:
        self.write("src/cli/a.cc", '#include "../main.h"\n#include "local.h"\n')
        self.assertEqual(len(self.breaches()), 2)

    def test_unknown_folder_is_refused(self) -> None:
        self.write("src/util/a.cc", "")
        self.assertEqual(self.breaches(), ["src/util/a.cc:1: folder util is not in the table of rooms"])

    def test_only_side_code_uses_what_lies_under_tests(self) -> None:
        self.write("src/wire/a_test.cc", '#include "tests/support/vectors.h"\n')
        self.assertEqual(self.breaches(), [])
        self.write("src/wire/a.cc", '#include "tests/support/vectors.h"\n')
        self.assertEqual(len(self.breaches()), 1)

    def test_side_code_keeps_the_layers(self) -> None:
        self.write("src/wire/a_test.cc", '#include "store/table.h"\n')
        self.assertEqual(len(self.breaches()), 1)

    def test_libraries_link_what_the_table_names(self) -> None:
        rooms = [room for room in check_layers.ROOMS if room not in ("main", "testing", "protocol/*")]

        def cmake(**more: str) -> str:
            lines = []
            for room in rooms:
                below = [r for r in check_layers.ROOMS[room].split() if (room, r) not in check_layers.HEADERS_ALONE]
                names = " ".join("sluice_" + r.replace("/", "_") for r in below)
                lines.append(f"sluice_folder({room} DEPENDS {names} {more.get(room, '')})\n")
            return "".join(lines)

        self.write("CMakeLists.txt", cmake())
        self.assertEqual(self.breaches(), [])
        self.write("CMakeLists.txt", cmake(limit="PRIVATE sluice_wire ORACLE sluice_store"))
        self.assertEqual(self.breaches(), ["CMakeLists.txt:3: limit links wire, which it may not include"])
        self.write("CMakeLists.txt", cmake().replace("sluice_folder(limit DEPENDS sluice_base", "sluice_folder(limit"))
        self.assertEqual(self.breaches(), ["CMakeLists.txt:3: limit may include base, and its library does not link it"])
        self.write("CMakeLists.txt", cmake() + "sluice_folder(util)\n")
        self.assertEqual(self.breaches(), [f"CMakeLists.txt:{len(rooms) + 1}: util is not in the table of rooms"])

    def test_a_room_may_lie_in_another(self) -> None:
        self.write("src/policy/read/a.cc", '#include "policy/rule.h"\n')
        self.write("src/policy/a_test.cc", '#include "policy/read/a.h"\n')
        self.assertEqual(self.breaches(), [])
        self.write("src/policy/a.cc", '#include "policy/read/a.h"\n')
        self.assertEqual(self.breaches(), ["src/policy/a.cc:1: policy must not include policy/read: policy/read/a.h"])

    def test_only_its_own_folder_includes_a_protocol(self) -> None:
        include = '#include "protocol/first/session.h"\n'
        self.write("src/protocol/first/session.cc", include)
        self.assertEqual(self.breaches(), [])
        self.write("src/engine/a.cc", include)
        self.write("src/protocol/all.cc", include)
        self.write("src/protocol/second/a.cc", include)
        self.assertEqual(len(self.breaches()), 3)

    def test_every_protocol_has_a_room_without_a_line(self) -> None:
        self.write("src/protocol/toy/a.cc", '#include "protocol/protocol.h"\n#include "base/time.h"\n')
        self.assertEqual(self.breaches(), [])

    def test_the_table_has_no_cycle(self) -> None:
        with unittest.mock.patch.dict(check_layers.ROOMS, {"base": "cli"}):
            self.assertIn("base may include a room that may include it", list(check_layers.check_table()))
        with unittest.mock.patch.dict(check_layers.ROOMS, {"base": "nowhere"}):
            self.assertIn("base may include nowhere, which is not a room", list(check_layers.check_table()))

    def test_header_needs_its_paragraph_and_guard(self) -> None:
        self.write("src/base/good.h", HEADER)
        self.write("src/base/mute.h", "#pragma once\n")
        self.write("src/base/bare.h", "// What it is.\n\nint x;\n#pragma once\n")
        self.write("src/base/empty.h", "")
        self.assertEqual(
            [line.split(": ")[0] for line in self.breaches()],
            ["src/base/bare.h:3", "src/base/empty.h:1", "src/base/empty.h:1", "src/base/mute.h:1"],
        )

    def test_comments_name_files_that_exist(self) -> None:
        self.write("src/base/time.h", HEADER + "#include <gone.h>  // see <gone.h>, time.h, base/time.h\nint gone;\n")
        self.write("tests/e2e/a_test.cc", "// Of src/base/time.h.\nint a = b;  // (a_test.cc)\n// A time.h.\n")
        self.assertEqual(self.breaches(), [])
        self.write("src/base/a.cc", "// It is (limit/time.h).\nint a;  // as e2e/time.h, gone.cc\n")
        self.write("tests/e2e/b.cc", "  // se/time.h\n")
        self.assertEqual(
            [line.partition(" does")[0] for line in self.breaches()],
            ["src/base/a.cc:1: limit/time.h", "src/base/a.cc:2: e2e/time.h", "src/base/a.cc:2: gone.cc",
             "tests/e2e/b.cc:1: se/time.h"],
        )

    def test_exit_status(self) -> None:
        command = [sys.executable, check_layers.__file__, str(self.root)]
        self.assertEqual(subprocess.run(command, capture_output=True, check=False).returncode, 0)
        self.write("src/base/a.cc", '#include "request/session.h"\n')
        self.assertEqual(subprocess.run(command, capture_output=True, check=False).returncode, 1)


if __name__ == "__main__":
    unittest.main()
