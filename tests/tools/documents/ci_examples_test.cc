// The pipelines of docs/examples/ci: their scripts are extracted and run in order, like in the
// shell of the CI, with the small model and an image layout.
#include <gmock/gmock.h>

#include <map>
#include <sstream>
#include <vector>

#include "libshard/base/text/text.h"
#include "tests/tools/run_moepack.h"

namespace moepack::cli {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

using TextLines = std::vector<std::string>;

TextLines LinesOfExample(const std::string& name) {
  std::istringstream text(ReadFile(fs::path(MOEPACK_SOURCE_DIR) / "docs/examples/ci" / name));
  TextLines lines;
  for (std::string line; std::getline(text, line);) lines.push_back(line);
  return lines;
}

size_t IndentOf(const std::string& line) {
  const size_t indent = line.find_first_not_of(' ');
  return indent == std::string::npos ? 0 : indent;
}

// The lines below line `at` that are indented further than it.
TextLines Below(const TextLines& lines, size_t at) {
  TextLines found;
  for (size_t i = at + 1; i < lines.size(); ++i) {
    if (!lines[i].empty() && IndentOf(lines[i]) <= IndentOf(lines[at])) break;
    found.push_back(lines[i]);
  }
  return found;
}

// The plain values below a key at the top: "env" or "variables".
std::map<std::string, std::string> Variables(const TextLines& lines, const std::string& key) {
  std::map<std::string, std::string> variables;
  for (size_t i = 0; i < lines.size(); ++i) {
    if (lines[i] != key + ":") continue;
    for (const std::string& line : Below(lines, i)) {
      const size_t colon = line.find(": ");
      std::string value = line.substr(colon + 2);
      if (value.starts_with('"')) value = value.substr(1, value.size() - 2);
      variables[line.substr(2, colon - 2)] = value;
    }
  }
  return variables;
}

// The text below "run: |", without its indentation.
std::vector<std::string> GithubSteps(const TextLines& lines) {
  std::vector<std::string> steps;
  for (size_t i = 0; i < lines.size(); ++i) {
    if (!lines[i].ends_with(" run: |")) continue;
    std::string step;
    for (const std::string& line : Below(lines, i))
      step += line.substr(std::min(line.size(), IndentOf(lines[i]) + 2)) + "\n";
    steps.push_back(step);
  }
  return steps;
}

// The entries below "script:", each of which may continue on the next line; one script per job.
std::vector<std::string> GitlabJobs(const TextLines& lines) {
  std::vector<std::string> jobs;
  for (size_t i = 0; i < lines.size(); ++i) {
    if (lines[i] != "  script:") continue;
    std::string script;
    for (const std::string& line : Below(lines, i)) {
      const std::string text = line.substr(IndentOf(line));
      const bool entry = text.starts_with("- ");
      script += Cat(entry ? "\n" : " ", entry ? text.substr(2) : text);
    }
    jobs.push_back(script + "\n");
  }
  return jobs;
}

// Quotes any text for sh; a key has several lines.
std::string InQuotes(const std::string& text) {
  std::string quoted = "'";
  for (const char c : text) quoted += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return quoted + "'";
}

class CiExamples : public testing::Test {
 protected:
  void SetUp() override {
    fs::create_symlink(MOEPACK_BINARY, tools_ / "moepack");
    fs::copy(workspace_ / "fixtures/tiny-overlay.json", workspace_ / "overlay.json");
    fs::copy(fs::path(MOEPACK_SOURCE_DIR) / "fixtures/texts/manual.md",
             workspace_ / "held-out.txt");
    ASSERT_EQ(workspace_.Moepack("keygen -o release").status, 0);
    Set("SOURCE", "fixtures/tiny-moe");
    Set("REPOSITORY", "layout:models");
    // The split costs it far more than a large model.
    Set("KLD_LIMIT", "9");
  }
  void Set(const std::string& name, const std::string& value) { variables_[name] = value; }
  // The example's value counts unless the test has set another.
  void Take(const std::map<std::string, std::string>& variables) {
    for (const auto& [name, value] : variables) {
      ASSERT_FALSE(value.empty()) << name;
      variables_.emplace(name, value);
    }
  }

  // Runs one script as `sh -e` does.
  int Run(const std::string& script) {
    std::string text = "set -e\n";
    for (const auto& [name, value] : variables_)
      text += Cat("export ", name, "=", InQuotes(value), "\n");
    WriteAll(tools_ / "step.sh", text + script);
    const std::string tools = "'" + tools_.path().string() + "'";
    const int ended =
        std::system(Cat("cd '", workspace_.path().string(), "' && PATH=", tools,
                        ":\"$PATH\" /bin/sh ", tools, "/step.sh >", tools, "/log 2>&1")
                        .c_str());
    log_ = ReadFile(tools_ / "log");
    return WIFEXITED(ended) ? WEXITSTATUS(ended) : -1;
  }
  void RunAll(const std::vector<std::string>& scripts) {
    for (const std::string& script : scripts) ASSERT_EQ(Run(script), 0) << script << "\n" << log_;
  }
  // Both tags name what was published, and its signature lets a node pull it.
  void ExpectReleased() {
    const auto list = workspace_.Json("ls layout:models --json");
    std::map<std::string, std::string> digests;
    for (const auto& one : list["manifests"])
      if (one["tag"].is_string()) digests[one["tag"]] = one["digest"];
    EXPECT_FALSE(digests["v1"].empty());
    EXPECT_EQ(digests["v1"], digests["v1-o1"]);
    EXPECT_EQ(digests["v1-g002"], digests["v1-o1-g002"]);
    EXPECT_EQ(
        workspace_.Moepack("pull layout:models:v1 --key release.pub --group 2 -o node").status, 0);
    EXPECT_EQ(workspace_.Moepack("verify layout:models:v1 --key release.pub").status, 0);
  }

  Workspace workspace_;
  fixtures::TempDir tools_;
  std::map<std::string, std::string> variables_;
  std::string log_;
};

TEST_F(CiExamples, EveryStepOfTheGithubWorkflowRuns) {
  const TextLines lines = LinesOfExample("github-actions.yml");
  Take(Variables(lines, "env"));
  Set("SIGNING_KEY", ReadFile(workspace_ / "release.key"));
  const auto steps = GithubSteps(lines);
  EXPECT_EQ(steps.size(), 7u);
  RunAll(steps);
  EXPECT_FALSE(fs::exists(workspace_ / "release.key")) << "the key is removed";
  ExpectReleased();
}

TEST_F(CiExamples, EveryLineOfTheGitlabPipelineRuns) {
  const TextLines lines = LinesOfExample("gitlab-ci.yml");
  Take(Variables(lines, "variables"));
  Set("SIGNING_KEY", workspace_ / "release.key");
  Set("CI_REGISTRY_USER", "user");
  Set("CI_REGISTRY_PASSWORD", "password");
  const auto jobs = GitlabJobs(lines);
  EXPECT_EQ(jobs.size(), 4u);
  RunAll(jobs);
  for (const char* report : {"verify.xml", "eval.xml"})
    EXPECT_THAT(ReadFile(workspace_ / report), HasSubstr("<testsuite")) << report;
  ExpectReleased();
}

// The limit of the examples is too strict for the small model, which is what the gate is for.
TEST_F(CiExamples, TheGateFailsASplitThatCostsTooMuch) {
  for (const char* name : {"github-actions.yml", "gitlab-ci.yml"}) {
    const TextLines lines = LinesOfExample(name);
    variables_.erase("KLD_LIMIT");
    const bool github = std::string(name).starts_with("github");
    Take(Variables(lines, github ? "env" : "variables"));
    const auto steps = github ? GithubSteps(lines) : GitlabJobs(lines);
    fs::remove_all(workspace_ / "dist");
    ASSERT_EQ(Run(steps[0]), 0) << log_;
    EXPECT_EQ(Run(steps[2]), 6) << log_;
  }
}

}  // namespace
}  // namespace moepack::cli
