// The tree of a YAML document, with places (policy/read/yaml_tree.h).
#include "policy/read/yaml_tree.h"

#include <gtest/gtest.h>

#include <string>

namespace sluice::policy {
namespace {

// The whole tree in one line: place, tag and text of each node.
std::string shown(YamlNode node) {
  std::string text = std::to_string(node.line()) + ":" + std::to_string(node.column());
  if (!node.tag().empty()) text += "<" + std::string(node.tag()) + ">";
  if (node.is_null()) return text + " null";
  if (node.is_scalar()) {
    const std::string_view quote = node.is_plain() ? "" : "'";
    return text.append(" ").append(quote).append(node.text()).append(quote);
  }
  text += node.is_list() ? " [" : " {";
  for (YamlNode child = node.first_child(); child; child = child.next()) text += " " + shown(child);
  return text + (node.is_list() ? " ]" : " }");
}

std::string read(std::string_view text) {
  YamlDocument document;
  if (const auto error = parse_yaml(text, document)) return to_string(to_diagnostic(*error, "f"));
  return shown(document.root());
}

TEST(YamlTree, NodesHaveTheirLineAndColumn) {
  EXPECT_EQ(read("a: 1\nb:\n  - x\n  - [y, 'z']\n"),
            "1:1 { 1:1 a 1:4 1 2:1 b 3:3 [ 3:5 x 4:5 [ 4:6 y 4:9 'z' ] ] }");
  EXPECT_EQ(read("- a: |\n    two\n    lines\n  b: \"x\\ty\"\n"),
            "1:1 [ 1:3 { 1:3 a 1:6 'two\nlines\n' 4:3 b 4:6 'x\ty' } ]");
  EXPECT_EQ(read("a:\n- b\n- c: d\n  e: f"),
            "1:1 { 1:1 a 2:1 [ 2:3 b 3:3 { 3:3 c 3:6 d 4:3 e 4:6 f } ] }");
}

// Columns count bytes, as in all messages; libyaml counts characters.
TEST(YamlTree, ColumnsCountBytes) {
  EXPECT_EQ(read("ä: ö\n€: [𝄞, x] # ü\nz: y"),
            "1:1 { 1:1 ä 1:5 ö 2:1 € 2:6 [ 2:7 𝄞 2:13 x ] 3:1 z 3:4 y }");
  EXPECT_EQ(read("\xEF\xBB\xBF"
                 "a: b"),
            "1:1 { 1:1 a 1:4 b }");
  EXPECT_EQ(read("ä: 1\r\nb: 2\r\nc: 3"), "1:1 { 1:1 ä 1:5 1 2:1 b 2:4 2 3:1 c 3:4 3 }");
}

TEST(YamlTree, AMissingValueIsNull) {
  EXPECT_EQ(read(""), "0:0 null");
  EXPECT_EQ(read("# only this\n"), "0:0 null");
  EXPECT_EQ(read("a:\nb: ~\nc: null\nd: NULL\ne: ''\nf: nUll"),
            "1:1 { 1:1 a 1:3 null 2:1 b 2:4 null 3:1 c 3:4 null 4:1 d 4:4 null 5:1 e 5:4 '' "
            "6:1 f 6:4 nUll }");
  EXPECT_EQ(read("{ a: , b:  }"), "1:1 { 1:3 a 1:6 null 1:8 b 1:12 null }");
}

TEST(YamlTree, TagsAreResolvedAndKept) {
  EXPECT_EQ(read("a: !!js/regexp /^x+$/"),
            "1:1 { 1:1 a 1:4<tag:yaml.org,2002:js/regexp> '/^x+$/' }");
  EXPECT_EQ(read("- !!str 1\n- !!str a\n- !!int 2\n- b"),
            "1:1 [ 1:3<tag:yaml.org,2002:str> '1' 2:3<tag:yaml.org,2002:str> 'a' "
            "3:3<tag:yaml.org,2002:int> '2' 4:3 b ]");
  EXPECT_EQ(read("%TAG !y! tag:yaml.org,2002:\n---\n!y!map { a: !!seq [] }"),
            "3:1<tag:yaml.org,2002:map> { 3:10 a 3:13<tag:yaml.org,2002:seq> [ ] }");
  EXPECT_EQ(read("&x !!js/regexp /a/"), "1:1<tag:yaml.org,2002:js/regexp> '/a/'");
}

TEST(YamlTree, AliasesShareTheNodeThatTheyName) {
  EXPECT_EQ(read("a: &x { b: c }\nd: *x\n<<: *x"),
            "1:1 { 1:1 a 1:4 { 1:9 b 1:12 c } 2:1 d 1:4 { 1:9 b 1:12 c } 3:1 << 1:4 { 1:9 b 1:12 "
            "c } }");
  EXPECT_EQ(read("- &x 1\n- &x 2\n- *x"), "1:1 [ 1:3 1 2:3 2 2:3 2 ]");
  EXPECT_EQ(read("- &x\n- *x\n"), "1:1 [ 1:3 null 1:3 null ]");
}

TEST(YamlTree, RejectsASecondDocument) {
  EXPECT_EQ(read("---\n---\na: b\n...\n---\n"), "3:1 { 3:1 a 3:4 b }");
  EXPECT_EQ(
      read("&x a\n--- \n*x"),
      "f:3:1: error: names `x`, and no anchor before it has that name; write `&x` in front of "
      "what is meant");
}

// Every way in which libyaml refuses a text, with our message and its place.
TEST(YamlTree, ReportsInvalidYamlWithItsPlace) {
  struct Case {
    std::string text, expected;
  };
  const Case cases[] = {
      {"a: [b, c", "f:1:4: error: is not YAML: what opens here is never closed; close it"},
      {"a: {b: c,\nd: [e\n", "f:2:4: error: is not YAML: what opens here is never closed; close"},
      {"a: [b, c\nd: e\n", "f:2:2: error: is not YAML: `,` or `]` is expected here"},
      {"a: {b: c d: e}", "f:1:11: error: is not YAML: `,` or `}` is expected here; separate"},
      {"a: {b: c\nd: e}", "f:2:2: error: is not YAML"},
      {"a: {b: c]", "f:1:9: error: is not YAML: `,` or `}` is expected here"},
      {"a: 1\nb\nc: 2", "f:2:1: error: is not YAML: this line must be a key and has no `: `"},
      {"a: b: c", "f:1:5: error: is not YAML: a `: ` cannot stand here; quote the value"},
      {"ä: b: c", "f:1:6: error: is not YAML: a `: ` cannot stand here; quote the value"},
      {"a: 1\n  b: 2", "f:2:4: error: is not YAML: a `: ` cannot stand here"},
      {"  a: 1\nb: 2", "f:2:1: error: is not YAML: the document ends above"},
      {"a:\n  b: 1\n c: 2", "f:3:2: error: is not YAML: a key is expected here; indent it"},
      {"- a\nb: c", "f:2:1: error: is not YAML: an item of a list is expected here; indent it"},
      {"a: - b", "f:1:4: error: is not YAML: no list can begin here; begin it on a line"},
      {"a: ? b", "f:1:4: error: is not YAML: no key can stand here; put it on a line of its own"},
      {"a:\n\tb: c", "f:2:1: error: is not YAML: a tab cannot stand here; use spaces"},
      {"a: @b", "f:1:4: error: is not YAML: no value can begin with `@`; quote it"},
      {"a: `b", "f:1:4: error: is not YAML: no value can begin with ```; quote it"},
      {"a: 1\nb: \"c\nd: e\n", "f:2:4: error: is not YAML: the quotes that open here never close"},
      {"a: 'it's'", "f:1:8: error: is not YAML: a key is expected here; indent it like"},
      {"a: \"b\n---\n\"", "f:1:4: error: is not YAML: the quotes that open here are not closed"},
      {"a: \"b\\c\"", "f:1:6: error: is not YAML: there is no such escape; write `\\\\`"},
      {"a: \"\\xzz\"", "is not YAML: hexadecimal digits are missing; write two behind `\\x`"},
      {"a: \"\\ud800\"", "is not YAML: this escape is not a character of Unicode"},
      {"match: { ip: * }", "f:1:14: error: is not YAML: `*` and `&` begin the name of an alias"},
      {"a: &\n", "f:1:4: error: is not YAML: `*` and `&` begin the name"},
      {"a: !x!y z", "f:1:4: error: is not YAML: no %TAG line declares the prefix of this tag"},
      {"a: !<b c", "f:1:4: error: is not YAML: this is not a tag; take it out, or quote the value"},
      {"a: |0\n b", "is not YAML: a block cannot be indented by 0 spaces"},
      {"a: | b\n", "f:1:6: error: is not YAML: nothing can follow here on the same line"},
      {"a: >\n \tb\n\tc", "f:2:2: error: is not YAML: a tab cannot indent; use spaces"},
      {"%FOO\n---\na: b",
       "f:1:1: error: is not YAML: a line that begins with `%` is not a directive"},
      {"%YAML 3.0\n---\na: b", "f:1:1: error: is not YAML: this version of YAML is not supported"},
      {"%YAML 1.1\n%YAML 1.1\n---\na", "f:2:1: error: is not YAML: repeats a directive of a line"},
      {"a: \"\xC2\x85\"", "f:1:5: error: this character ends the line for some readers"},
      {"ä: x\xE2\x80\xA8y", "f:1:6: error: this character ends the line for some"},
      {"ä: x\xC2\x80", "f:1:6: error: this character is not allowed in YAML"},
      {"\xEF\xBB\xBFä: x\xC2\x80", "f:1:6: error: this character is not allowed in YAML"},
      {std::string(65, '['), "f:1:65: error: is nested deeper than 64 lists and maps"},
      {std::string(100'000, '['), "f:1:65: error: is nested deeper than 64 lists and maps"},
  };
  for (const auto& [text, expected] : cases) {
    const std::string said = read(text);
    EXPECT_NE(said.find(expected), std::string::npos)
        << text.substr(0, 99) << "\nsays: " << said << "\nnot:  " << expected;
    EXPECT_EQ(said.find("this cannot be read"), std::string::npos) << text.substr(0, 99);
  }
}

// YAML that other programs accept; a reader asks for it (YamlReading).
TEST(YamlTree, ReadsFilesOfOtherProgramsIfAskedTo) {
  const auto first = [](std::string_view text) {
    YamlDocument document;
    const auto error = parse_yaml(text, document, {.first_document_only = true});
    if (error) return to_string(to_diagnostic(*error, "f"));
    return shown(document.root()) + ", then " + std::to_string(document.passed_over_line());
  };
  EXPECT_EQ(first("a: 1\n---\nb: [\n"), "1:1 { 1:1 a 1:4 1 }, then 2");
  EXPECT_EQ(first("---\n---\nb: 1\n"), "0:0 null, then 2");
  EXPECT_EQ(first("a: 1\n...\n@\n"), "1:1 { 1:1 a 1:4 1 }, then 3");
  EXPECT_EQ(first("---\na: 1\n...\n# done\n"), "2:1 { 2:1 a 2:4 1 }, then 0");
  EXPECT_EQ(first(""), "0:0 null, then 0");
  EXPECT_NE(first("a: [\n---\n").find("error"), std::string::npos);
  EXPECT_EQ(read("a: 1\n---\nb: 1\n"),
            "f:3:1: error: ---: begins a second document, which would not be read; keep one");

  YamlDocument document;
  EXPECT_FALSE(parse_yaml("a: !own x", document, {.foreign_tags = true}));
  EXPECT_EQ(shown(document.root()), "1:1 { 1:1 a 1:4<!own> 'x' }");
  EXPECT_NE(read("a: !own x").find("which says nothing here"), std::string::npos);

  YamlDocument broken;
  EXPECT_FALSE(parse_yaml("a: 1 # \u2028b: 2", broken, {.line_breaks_of_1_1 = true}));
  EXPECT_EQ(broken.root().size(), 4u);
  EXPECT_NE(read("a: 1 # \u2028b: 2").find("some readers of YAML only"), std::string::npos);
}

TEST(YamlTree, SaysThatAManifestIsOneInOneSentence) {
  EXPECT_EQ(read("apiVersion: v1\nkind: ConfigMap\ndata: { a: 'domain: x' }\n"),
            "f:1:1: error: this is a manifest of Kubernetes (a ConfigMap), not a policy; give the "
            "file that is in it; of a ConfigMap a text under `data`");
  EXPECT_NE(read("kind: \"a\\n\"\napiVersion: v1\n").find("(a a\\n)"), std::string::npos);
  const std::string one = read("apiVersion: v1\nkind: ConfigMap\n");
  EXPECT_EQ(read("---\napiVersion: v1\nkind: ConfigMap\n---\nkind: Service\n"),
            "f:2" + one.substr(3));
  EXPECT_EQ(read("apiVersion: v1\nkind: ConfigMap\n---\n{{ a }}: [\n"), one);
  EXPECT_NE(read("{\"apiVersion\": \"v1\", \"kind\": \"ConfigMap\"}").find("manifest"),
            std::string::npos);
  // One of the two keys is not enough, nor are both further in.
  for (const char* text :
       {"kind: ConfigMap\nrules: []", "apiVersion: v1", "kind: [a]\napiVersion: b",
        "a: { apiVersion: v1, kind: b }", "[apiVersion, kind]"})
    EXPECT_EQ(read(text).find("manifest"), std::string::npos) << text;
}

TEST(YamlTree, AliasesHaveTheNumberOfTheNodeThatTheyName) {
  YamlDocument document;
  ASSERT_FALSE(parse_yaml("[&a x, *a, x]", document));
  const YamlNode x = document.root().first_child(), alias = x.next(), other = alias.next();
  EXPECT_EQ(x.id(), alias.id());
  EXPECT_NE(x.id(), other.id());
  EXPECT_LT(other.id(), document.size());
}

}  // namespace
}  // namespace sluice::policy
