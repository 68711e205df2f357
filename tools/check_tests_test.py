"""Tests of check_tests.py on small trees of their own."""

from __future__ import annotations

import contextlib
import io
import tempfile
import unittest
from pathlib import Path

import check_tests


def body(lines: int) -> str:
    return "  EXPECT_TRUE(true);\n" * lines


class CheckTestsTest(unittest.TestCase):
    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = Path(folder.name)

    def breaches(self, text: str, name: str = "src/a_test.cc") -> list[str]:
        file = self.root / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")
        found = [f"{b.path.name}:{b.line}: {b.text}" for b in check_tests.check(self.root)]
        file.unlink()
        return found

    def test_sixty_lines_pass_and_sixty_one_do_not(self) -> None:
        for macro in ("TEST", "TEST_F", "TEST_P", "TYPED_TEST", "TYPED_TEST_P"):
            for name in ("src/base/a_test.cc", "tests/e2e/a.cc", "tools/a_test.h"):
                with self.subTest(macro=macro, name=name):
                    self.assertEqual(self.breaches(f"{macro}(A, B) {{\n{body(60)}}}\n", name), [])
                    found = self.breaches(f"\n{macro}(A, B) {{\n{body(61)}}}\n", name)
                    self.assertEqual([text.split(":")[1:3] for text in found],
                                     [["2", " the body of A.B has 61 lines; 60 are the most"]])

    def test_each_body_is_counted_by_itself(self) -> None:
        two = f"TEST(A, B) {{\n{body(40)}}}\n\nTEST(A, C) {{\n{body(61)}}}\n\nTEST(A, D) {{\n{body(40)}}}\n"
        self.assertEqual([text.split(" has")[0] for text in self.breaches(two)], ["a_test.cc:44: the body of A.C"])

    def test_a_body_in_one_line_ends_there(self) -> None:
        self.assertEqual(self.breaches(f"TEST(A, B) {{ EXPECT_TRUE(true); }}\nvoid f() {{\n{body(61)}}}\n"), [])

    def test_a_brace_in_a_raw_string_does_not_end_a_body(self) -> None:
        text = f'TEST(A, B) {{\n  f(R"(\n}}\n)");\n{body(58)}}}\n'
        self.assertEqual(len(self.breaches(text)), 1)
        self.assertEqual(self.breaches(text.replace("  EXPECT_TRUE(true);\n", "", 1)), [])

    def test_an_indented_test_ends_at_its_own_brace(self) -> None:
        self.assertEqual(len(self.breaches(f"  TEST(A, B) {{\n{body(30)}  {{\n  x();\n    }}\n{body(30)}  }}\n")), 1)

    def test_a_body_without_an_end_is_a_breach(self) -> None:
        self.assertIn("has no end", self.breaches("TEST(A, B) {\n  x();\n")[0])

    def test_names_are_camel_case(self) -> None:
        for suite, test in (("Store", "Takes"), ("HTTP2", "A"), ("Store", "DISABLED_Child"), ("Redis7Store", "B2")):
            self.assertEqual(self.breaches(f"TEST({suite}, {test}) {{\n}}\n"), [])
        for wrong in ("takes", "takesOne", "Takes_One", "TAKES_ONE", "_Takes", "DISABLED_child", "DISABLED_"):
            with self.subTest(wrong=wrong):
                self.assertEqual(self.breaches(f"TEST(Store, {wrong}) {{\n}}\n"),
                                 [f"a_test.cc:1: the name of the test {wrong} must be CamelCase, without underscores"])
                self.assertEqual(self.breaches(f"TEST_F({wrong}, Takes) {{\n}}\n"),
                                 [f"a_test.cc:1: the name of the suite {wrong} must be CamelCase, without underscores"])

    def test_words_that_a_stranger_stumbles_over_are_refused(self) -> None:
        for wrong in ("ClientsThatSayNothingKeepNobodyOut", "WhoGoesTakesNothing", "AtNoGateAnythingIsOnDiskWhoeverTookIt",
                      "WhatIsPlainIsTaken", "ThatIsDeniedIs429", "OfNothingLooks", "MatchesAreNoCharges", "RefusesWhatIsNone",
                      "ALimitIsToBeSet", "AStopIsTold", "TellsItsSecret", "AScanGoesOnWhereItWas", "WaitsAsEver",
                      "RandomGroupsAsTheModel", "DamageIsFoundAndMended", "AShadowRuleHasNoSay", "DISABLED_WhoWaits"):
            with self.subTest(wrong=wrong):
                found = self.breaches(f"\nTEST(Store, {wrong}) {{\n}}\n")
                self.assertEqual(len(found), 1, found)
                start = f"a_test.cc:2: the name of the test {wrong} has `"
                self.assertTrue(found[0].startswith(start), found)
                self.assertIn(found[0].removeprefix(start).split("`: say it in plain words (")[0], wrong)

    def test_other_words_that_look_alike_pass(self) -> None:
        for right in ("IsNotFresh", "ThereIsNoRoom", "IsNormalized", "AWholeRecord", "ACallWhoseDeadlineHasPassed", "Offline",
                      "NotifiesWaiters", "KeepsWhatWasCommitted", "WaitsForEveryWindow", "SocketsAreBound", "Whole", "IsNow",
                      "RulesOfAList", "AnswersAsTheModelDoes", "Whatever", "HasABody", "RejectsABodyOfZeros"):
            with self.subTest(right=right):
                self.assertEqual(self.breaches(f"TEST(Store, {right}) {{\n}}\n"), [])

    def test_names_in_python_are_held_to_the_same_words(self) -> None:
        def case(name: str) -> list[str]:
            return self.breaches(f"class A:\n    def {name}(self) -> None:\n        pass\n", "tests/clients/a_test.py")

        self.assertEqual(case("test_a_query_is_ignored"), [])
        self.assertEqual(case("test_nothing_is_noticed"), [])
        for wrong, word in (("test_what_it_names", "WhatI"), ("test_a_query_has_no_say", "HasNoSay"), ("test_so_is_one", "SoI")):
            self.assertEqual([text.split(": say")[0] for text in case(wrong)],
                             [f"a_test.py:2: the name of the test {wrong} has `{word}`"])

    def test_a_test_may_begin_on_several_lines(self) -> None:
        self.assertEqual(len(self.breaches("TEST_F(Store,\n       takes) {\n}\n")), 1)

    def test_bodies_in_python_are_counted(self) -> None:
        def case(lines: int) -> str:
            return "class A:\n    def test_a(self) -> None:\n" + "        pass\n" * lines

        self.assertEqual(self.breaches(case(60), "tests/clients/a_test.py"), [])
        self.assertEqual([text.split(" has")[0] for text in self.breaches(case(61), "tests/clients/a_test.py")],
                         ["a_test.py:2: the body of test_a"])

    def test_installed_code_is_not_looked_at(self) -> None:
        self.assertEqual(self.breaches("TEST(A, b_c) {\n}\n", "tests/clients/node_modules/a/a_test.cc"), [])

    def test_the_exit_status_and_the_lines_say_what_was_found(self) -> None:
        (self.root / "tests").mkdir()
        (self.root / "tests/a.cc").write_text("TEST(A, b) {\n}\n", encoding="utf-8")
        out = io.StringIO()
        with contextlib.redirect_stdout(out):
            self.assertEqual(check_tests.main([str(self.root)]), 1)
        self.assertEqual(out.getvalue(), "tests/a.cc:1: the name of the test b must be CamelCase, without underscores\n"
                                         "tests: 1 names or bodies need a change\n")
        (self.root / "tests/a.cc").unlink()
        out = io.StringIO()
        with contextlib.redirect_stdout(out):
            self.assertEqual(check_tests.main([str(self.root)]), 0)
        self.assertEqual(out.getvalue(), "tests: names and lengths are right\n")


if __name__ == "__main__":
    unittest.main()
