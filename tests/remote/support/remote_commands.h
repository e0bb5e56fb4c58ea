// The built moepack on fixtures/tiny-moe, here and on a local server.
#pragma once

#include <filesystem>
#include <map>
#include <sstream>
#include <string>

#include "libshard/base/text/text.h"
#include "tests/remote/support/fault_server.h"
#include "tests/remote/support/scoped_variable.h"
#include "tests/tools/run_moepack.h"

namespace moepack::remote {

inline const std::string kLocal = "fixtures/tiny-moe";

inline std::string WithoutOrigins(std::string text) {
  const std::string begin = ", \"url\": \"", end = "\"verified\": \"transport\"";
  for (size_t at = text.find(begin); at != std::string::npos; at = text.find(begin, at))
    text.erase(at, text.find(end, at) + end.size() - at);
  return text;
}

// The README.md of a distribution without its lines about the source's address.
inline std::string WithoutReadFrom(const std::string& readme) {
  std::istringstream lines(readme);
  std::string text;
  for (std::string line; std::getline(lines, line);) {
    const bool about_place = line.starts_with("base_model") || line.starts_with("- read from: ") ||
                             line.starts_with("moepack verify . --digest ");
    if (!about_place) text += line + "\n";
  }
  return text;
}

// Names and bytes of every file of a directory; of distribution.json and README.md without the
// origin of the source, which says where it was read.
inline std::string ContentOf(const std::filesystem::path& directory) {
  std::map<std::string, std::string> files;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(directory))
    if (entry.is_regular_file())
      files[std::filesystem::relative(entry.path(), directory)] = cli::ReadFile(entry.path());
  std::string all;
  for (const auto& [name, text] : files) {
    const bool readme = name == "README.md";
    all += Cat(name, "\n", readme ? WithoutReadFrom(text) : WithoutOrigins(text), "\n");
  }
  return all;
}

class RemoteCommands : public testing::Test {
 protected:
  void SetUp() override {
    server_.SetListing(true);
    server_.AddDirectory("/tiny-moe/", workspace_ / kLocal);
  }
  std::string address() const { return server_.origin() + "/tiny-moe/"; }
  cli::ToolRun Moepack(const std::string& arguments) const { return workspace_.Moepack(arguments); }
  cli::ToolRun Build(const std::string& source, const std::string& out) const {
    return Moepack("build " + source + " --groups 3 --overlay-file fixtures/tiny-overlay.json -o " +
                   out);
  }
  bool IsThere(const std::string& name) const { return std::filesystem::exists(workspace_ / name); }
  std::string Content(const std::string& directory) const {
    return ContentOf(workspace_ / directory);
  }

  cli::Workspace workspace_;
  FaultServer server_;
  // Nothing from the user's environment, and little patience, so that tries are soon over.
  ScopedVariable patience_{"MOEPACK_PATIENCE", "1"}, home_{"HF_HOME", workspace_ / "hf"},
      http_proxy_{"http_proxy", ""}, all_proxy_{"all_proxy", ""},
      aws_keys_{"AWS_SHARED_CREDENTIALS_FILE", workspace_ / "none"},
      aws_config_{"AWS_CONFIG_FILE", workspace_ / "none"}, aws_profile_{"AWS_PROFILE", ""};
};

}  // namespace moepack::remote
