#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tools/reports/verify_report.h"

namespace moepack::cli {
namespace {

using manifest::Severity;
using testing::HasSubstr;
using testing::Not;

TEST(VerifyJunit, HasOneTestCasePerRule) {
  manifest::VerifyReport report;
  report.rules = {"manifest-schema", "file-size", "no-stray-files"};
  report.findings = {{Severity::kError, "file-size", "a", "", "expected 2"},
                     {Severity::kError, "file-size", "b", "", "expected 3"},
                     {Severity::kWarning, "no-stray-files", "c", "", "found"}};
  EXPECT_EQ(JunitText(VerifyCi("out", report)),
            "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n"
            "<testsuites tests=\"3\" failures=\"1\">\n"
            "  <testsuite name=\"moepack verify out\" tests=\"3\" failures=\"1\">\n"
            "    <testcase classname=\"moepack.verify\" name=\"manifest-schema\"/>\n"
            "    <testcase classname=\"moepack.verify\" name=\"file-size\">\n"
            "      <failure type=\"file-size\" message=\"a: expected 2\">a: expected 2\n"
            "b: expected 3\n</failure>\n"
            "    </testcase>\n"
            "    <testcase classname=\"moepack.verify\" name=\"no-stray-files\">\n"
            "      <system-out>warning: c: found\n</system-out>\n"
            "    </testcase>\n"
            "  </testsuite>\n"
            "</testsuites>\n");
}

std::string MessageOf(const std::string& text) {
  manifest::VerifyReport report;
  report.findings = {{Severity::kError, "r", "", "", text}};
  return JunitText(VerifyCi("o", report));
}

TEST(VerifyJunit, EscapesMarkup) {
  EXPECT_THAT(MessageOf("<a b=\"c\">&\n"), HasSubstr("&lt;a b=&quot;c&quot;&gt;&amp;\\x0a"));
}

TEST(VerifyJunit, EscapesBytesThatXmlCannotHold) {
  EXPECT_THAT(MessageOf(std::string("x\x01y")), HasSubstr("x\\x01y"));
  // A lone continuation byte, an overlong slash, a surrogate, a character cut short.
  for (const char* broken : {"\x80", "\xC0\xAF", "\xED\xA0\x80", "\xE2\x82", "\xEF\xBF\xBF"}) {
    EXPECT_THAT(MessageOf(broken), Not(HasSubstr(broken)));
  }
}

TEST(VerifyJunit, KeepsValidUtf8) {
  EXPECT_THAT(MessageOf("\xC3\xA9 \xE2\x82\xAC \xF0\x9F\x98\x80"),
              HasSubstr("\xC3\xA9 \xE2\x82\xAC \xF0\x9F\x98\x80"));
}

}  // namespace
}  // namespace moepack::cli
