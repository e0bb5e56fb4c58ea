// Reports for continuous integration, as GitHub's annotations or JUnit's test cases.
#pragma once

#include <CLI/App.hpp>
#include <string>

#include "manifest/verify/verify.h"

namespace moepack::cli {

struct CiReport {
  std::string command;  // "verify"
  std::string path;     // of the distribution or model
  std::string file;     // what findings that name no file are about
  // Its rules are the test cases, even for commands whose cases are nodes or gates.
  manifest::VerifyReport cases;
  std::string totals;  // "passed: 14 rules; ..."
};

// Workflow commands of GitHub Actions: ::error file=...,title=...::message.
std::string GithubText(const CiReport& report);
// XML: one test case per rule.
std::string JunitText(const CiReport& report);

enum class ReportFormat : uint8_t { kText, kJson, kGithub, kJunit };
struct ReportArguments {
  std::string format = "text";
  bool json = false;
  ReportFormat kind() const;
};
// --format, --json.
void AddReportFormat(CLI::App& app, ReportArguments& arguments);

}  // namespace moepack::cli
