// Command lines of moepack that we print for users to run, with every option and every quote.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace moepack::cli {

class CommandLine {
 public:
  // A line of `moepack <verb>`.
  explicit CommandLine(std::string_view verb);

  void Add(std::string_view word);
  // Adds nothing if `value` is empty.
  void Add(std::string_view option, std::string_view value);
  // Paths that begin with '-' are written so that they are not mistaken for options.
  void AddPath(std::string_view path);
  void AddPath(std::string_view option, std::string_view path);

  // The line as /bin/sh reads it.
  std::string Text() const;

 private:
  std::vector<std::string> words_;
};

// Starts llama-server with a node: its directory, and the file in it to name.
std::string ServerCommand(const std::string& node, const std::string& model_file);

// `path`, or the first of path-2, path-3, ... that does not exist yet.
std::string FreePath(const std::string& path);

}  // namespace moepack::cli
