#include "tools/reports/ci_report.h"

#include <CLI/CLI.hpp>

#include "tools/base/sections.h"
#include "tools/options/options.h"

namespace moepack::cli {

ReportFormat ReportArguments::kind() const {
  if (json || format == "json") return ReportFormat::kJson;
  if (format == "github") return ReportFormat::kGithub;
  return format == "junit" ? ReportFormat::kJunit : ReportFormat::kText;
}

void AddReportFormat(CLI::App& app, ReportArguments& arguments) {
  StartSection(app, "General");
  CLI::Option* format = app.add_option("--format", arguments.format,
                                       "How to report: text (default), json, github (workflow "
                                       "commands of GitHub Actions) or junit (XML).")
                            ->type_name("FORMAT")
                            ->transform(OneOf({"text", "json", "github", "junit"}));
  AddJson(app, arguments.json);
  app.get_option("--json")->excludes(format);
}

}  // namespace moepack::cli
