#include "libshard/convert/model_card.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace moepack {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

TEST(ModelCard, ReadsScalarsAndLists) {
  ModelCard card = ParseModelCard(
      "---\r\nlicense: apache-2.0 # a comment\nlicense_link: https://example.org/a#b\n"
      "name: \"quoted: yes\"\nother: 'single'\n"
      "base_model:\n- a/B\n- c/D\nlanguage: [en, \"no\"]\ntags:\n  - one\n  - two\n---\n# Text\n"
      "license: not this one\n");
  EXPECT_THAT(card["license"], ElementsAre("apache-2.0"));
  EXPECT_THAT(card["license_link"], ElementsAre("https://example.org/a#b"));
  EXPECT_THAT(card["name"], ElementsAre("quoted: yes"));
  EXPECT_THAT(card["other"], ElementsAre("single"));
  EXPECT_THAT(card["base_model"], ElementsAre("a/B", "c/D"));
  EXPECT_THAT(card["language"], ElementsAre("en", "no"));
  EXPECT_THAT(card["tags"], ElementsAre("one", "two"));
}

TEST(ModelCard, ReadsTheLanguageNoAsText) {
  EXPECT_THAT(ParseModelCard("---\nlanguage:\n- no\n- yes\n---\n")["language"],
              ElementsAre("no", "yes"));
  EXPECT_THAT(ParseModelCard("---\nlanguage: no\n---\n")["language"], ElementsAre("no"));
}

TEST(ModelCard, EscapesBytesThatAreNotUtf8) {
  EXPECT_THAT(ParseModelCard("---\ntags: [moe, caf\xe9, caf\xc3\xa9]\n---\n")["tags"],
              ElementsAre("moe", "caf\\xe9", "caf\xc3\xa9"));
}

TEST(ModelCard, SplitsListsAtCommasOutsideQuotes) {
  EXPECT_THAT(ParseModelCard("---\ntags: [a, \"b, c\", 'd,e' , f's, g]\n---\n")["tags"],
              ElementsAre("a", "b, c", "d,e", "f's", "g"));
  EXPECT_THAT(ParseModelCard("---\ntags: [a, \"b, c]\n---\n")["tags"], ElementsAre("a"));
}

TEST(ModelCard, SkipsWhatItDoesNotUnderstand) {
  ModelCard card = ParseModelCard(
      "---\nmodel-index:\n- name: x\n  results:\n  - task: y\nsummary: |\n  block: text\n"
      "empty:\nnothing: null\nmap: {a: b}\nlicense: mit\n---\n");
  EXPECT_THAT(card["model-index"], IsEmpty());
  for (const char* key : {"summary", "empty", "nothing", "map", "block"}) {
    EXPECT_THAT(card[key], IsEmpty()) << key;
  }
  EXPECT_THAT(card["license"], ElementsAre("mit"));
}

TEST(ModelCard, IsEmptyWithoutFrontMatter) {
  for (const char* text : {"", "# Title\n", "---\nlicense: mit\n", "text\n---\na: b\n---\n"}) {
    EXPECT_THAT(ParseModelCard(text), IsEmpty()) << text;
  }
}

}  // namespace
}  // namespace moepack
