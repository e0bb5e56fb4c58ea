#include "tools/base/command_text.h"

#include "libshard/base/files/file.h"
#include "libshard/base/text/quote.h"
#include "libshard/base/text/text.h"

namespace moepack::cli {

CommandLine::CommandLine(std::string_view verb) : words_{"moepack", std::string(verb)} {}

void CommandLine::Add(std::string_view word) { words_.emplace_back(word); }

void CommandLine::Add(std::string_view option, std::string_view value) {
  if (value.empty()) return;
  Add(option);
  Add(value);
}

void CommandLine::AddPath(std::string_view path) { words_.push_back(PathArgument(path)); }

void CommandLine::AddPath(std::string_view option, std::string_view path) {
  if (path.empty()) return;
  Add(option);
  AddPath(path);
}

std::string CommandLine::Text() const { return ShellCommand(words_); }

std::string ServerCommand(const std::string& node, const std::string& model_file) {
  const std::string path = (fs::path(node) / model_file).string();
  return ShellCommand({"llama-server", "-m", PathArgument(path)});
}

std::string FreePath(const std::string& path) {
  std::error_code ignored;
  std::string free = path;
  for (uint64_t number = 2; fs::exists(fs::symlink_status(free, ignored)); ++number) {
    free = Cat(path, "-", number);
  }
  return free;
}

}  // namespace moepack::cli
