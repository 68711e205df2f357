"""Tests of check_members.py on small trees of their own."""

from __future__ import annotations

import tempfile
import unittest
from pathlib import Path

import check_members


def members(count: int) -> str:
    return "".join(f"  int m{i}_ = {{{i}}};\n" for i in range(count))


class CheckMembersTest(unittest.TestCase):
    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = Path(folder.name)
        (self.root / "src").mkdir()

    def breaches(self, text: str) -> list[str]:
        (self.root / "src/a.h").write_text(text, encoding="utf-8")
        return [f"{b.path.name}:{b.line}: {b.text}"[:24] for b in check_members.check(self.root)]

    def test_twenty_pass_and_twenty_one_do_not(self) -> None:
        self.assertEqual(self.breaches("class A {\n" + members(20) + "};\n"), [])
        self.assertEqual(self.breaches("\nclass A {\n" + members(21) + "};\n"), ["a.h:2: A has 21 members;"])

    def test_a_reason_in_the_comment_before_it_is_enough(self) -> None:
        reason = "// It owns all. More than twenty\n// members: they end in this order.\n"
        self.assertEqual(self.breaches(reason + "class A final : public B {\n" + members(21) + "};\n"), [])
        self.assertEqual(self.breaches(reason + "\nclass A {\n" + members(21) + "};\n"), ["a.h:4: A has 21 members;"])

    def test_functions_types_and_constants_are_not_members(self) -> None:
        others = (
            "  using T = int;\n  friend class C;\n  static constexpr int max = 3;\n  enum class E { a, b };\n"
            "  explicit A(int a, int b) : m0_(a) { run(); }\n  bool is_set() const { return m0_ > 0; }\n"
            "  template <class U>\n  void visit(U&& u, int more = 3);\n  std::function<void(int, int)> make();\n"
            "  struct Inner {\n    int x, y, z;\n  };\n"
        )
        self.assertEqual(self.breaches("struct A {\n" + others + members(20) + "};\n"), [])

    def test_each_name_and_each_kind_of_member_counts(self) -> None:
        kinds = "  std::map<int, std::pair<int, int>> a_, b_;\n  std::function<void(int)> c_;\n  const B& d_;\n  E* e_;\n"
        self.assertEqual(self.breaches("class A {\n" + kinds + members(15) + "};\n"), [])
        self.assertEqual(self.breaches("class A {\n" + kinds + members(16) + "};\n"), ["a.h:1: A has 21 members;"])


if __name__ == "__main__":
    unittest.main()
