// Runs the built moepack as a user does, from a separate directory.
#pragma once

#include <gtest/gtest.h>
#include <sys/wait.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "fixtures/temp_dir.h"

namespace moepack::cli {

struct ToolRun {
  int status = -1;
  std::string out, err;
};

using fixtures::ReadFile;

inline void WriteAll(const std::filesystem::path& path, const std::string& text) {
  std::filesystem::create_directories(path.parent_path());
  std::ofstream(path, std::ios::binary) << text;
}

// A directory with fixtures/tiny-moe, tiny-overlay.json, statistics and texts, and some documents,
// as in a clone.
class Workspace {
 public:
  Workspace() {
    std::filesystem::create_directories(path() / "fixtures");
    const std::filesystem::path source = MOEPACK_SOURCE_DIR "/fixtures";
    std::filesystem::copy(source / "tiny-moe", path() / "fixtures/tiny-moe");
    for (const char* overlay : {"tiny-overlay.json", "tiny-overlay-2.json"})
      std::filesystem::copy(source / overlay, path() / "fixtures");
    for (const char* folder : {"statistics", "texts"})
      std::filesystem::copy(source / folder, path() / "fixtures" / folder);
    std::filesystem::create_directories(path() / "docs");
    for (const char* text : {"README.md", "docs/architecture.md", "docs/cli.md"})
      std::filesystem::copy(source.parent_path() / text, path() / text);
  }

  const std::filesystem::path& path() const { return dir_.path(); }
  std::filesystem::path operator/(const std::string& name) const { return path() / name; }

  // `arguments` is shell text.
  ToolRun Moepack(const std::string& arguments) const {
    const std::string streams = (logs_ / "run").string();
    // Redirections in `arguments` come later and take precedence.
    const std::string command = "cd '" + path().string() + "' && >'" + streams + ".out' 2>'" +
                                streams + ".err' '" MOEPACK_BINARY "' " + arguments;
    const int status = std::system(command.c_str());
    return {WIFEXITED(status) ? WEXITSTATUS(status) : -1, ReadFile(streams + ".out"),
            ReadFile(streams + ".err")};
  }

  // Runs, expects status 0 and one JSON document on stdout.
  nlohmann::json Json(const std::string& arguments) const {
    const ToolRun run = Moepack(arguments);
    EXPECT_EQ(run.status, 0) << arguments << "\n" << run.err;
    nlohmann::json document = nlohmann::json::parse(run.out, nullptr, false);
    EXPECT_FALSE(document.is_discarded()) << run.out;
    return document;
  }

  // Names of everything in the workspace, for tests that nothing was written.
  std::string Listing() const {
    std::string names;
    for (const auto& entry : std::filesystem::recursive_directory_iterator(path())) {
      names += entry.path().string() + "\n";
    }
    return names;
  }

 private:
  fixtures::TempDir dir_, logs_;
};

// What one command writes, made when it is first needed and copied into the workspace of each case.
class MadeOnce {
 public:
  MadeOnce(std::string arguments, std::vector<std::string> outputs)
      : arguments_(std::move(arguments)), outputs_(std::move(outputs)) {}

  void CopyInto(const Workspace& workspace) {
    if (!made_) {
      made_.emplace();
      const ToolRun run = made_->Moepack(arguments_);
      EXPECT_EQ(run.status, 0) << arguments_ << "\n" << run.err;
    }
    for (const std::string& output : outputs_) {
      std::filesystem::copy(*made_ / output, workspace / output,
                            std::filesystem::copy_options::recursive);
    }
  }

 private:
  std::string arguments_;
  std::vector<std::string> outputs_;
  std::optional<Workspace> made_;
};

}  // namespace moepack::cli
