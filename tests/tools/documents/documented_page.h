// The console blocks of the documents show what their commands print: every block is run, page by
// page in a separate directory, and the output is compared line by line.
//
//   $ COMMAND             is run by /bin/sh; it continues on the next line after | at its end
//   ...                   as a line of output stands for any lines
//   <64 digits>           stands for a SHA-256
//
// Times, rates and the CPU are not compared. Comments before a block change this:
//
//   <!-- run: COMMAND -->      runs it first, and ignores its output
//   <!-- figures vary -->      numbers with a decimal point are not compared
//   <!-- not run: REASON -->   leaves the block alone
//   <!-- needs: COMMAND -->    skips it, with a notice, if the command fails
//
// A block of another language after "Save it as `NAME`:" is written to that file.
// Long because tests/tools and tests/remote both compile it, and only headers are shared.
#pragma once

#include <gtest/gtest.h>

#include <iostream>
#include <optional>
#include <span>
#include <sstream>
#include <utility>
#include <vector>

#include "libshard/base/text/regex.h"
#include "libshard/base/text/text.h"
#include "tests/tools/run_moepack.h"

namespace moepack::cli {

using Lines = std::vector<std::string>;

inline Lines LinesOf(const std::string& text) {
  Lines lines;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  return lines;
}

inline std::string Replaced(const std::string& text, const char* expression,
                            const std::string& with) {
  const Regex regex = Regex::Compile(expression).value();
  Regex::Matcher matcher(regex);
  std::string out;
  size_t done = 0;
  while (const auto match = matcher.Find(text, done).value()) {
    out += text.substr(done, match->begin - done) + with;
    done = match->end;
  }
  return out + text.substr(done);
}

// A line without the parts that differ from run to run.
inline std::string Steady(std::string line, bool figures_vary) {
  line = Replaced(line, "\\b[0-9]+\\.[0-9]+ s\\b", "# s");
  line = Replaced(line, "\\([0-9.,]+ ([kMGT]?B/s|per second)\\)", "(# each second)");
  line = Replaced(line, "\\bat [0-9.,]+ [kMGT]?B/s", "at # each second");
  line = Replaced(line, "cpu: [0-9]+ threads?, \\w+", "cpu: # threads, #");
  if (!figures_vary) return line;
  line = Replaced(line, "-?[0-9][0-9,]*\\.[0-9]+", "#");
  return Replaced(line, " +", " ");
}

inline bool SameLine(const std::string& expected, const std::string& found) {
  constexpr std::string_view kSha256 = "<64 digits>";
  const size_t at = expected.find(kSha256);
  if (at == expected.npos) return expected == found;
  return found.size() >= at + 64 && found.starts_with(expected.substr(0, at)) &&
         found.substr(at, 64).find_first_not_of("0123456789abcdef") == found.npos &&
         SameLine(expected.substr(at + kSha256.size()), found.substr(at + 64));
}

inline bool SameLines(std::span<const std::string> expected, std::span<const std::string> found) {
  if (expected.empty()) return found.empty();
  const std::string& first = expected.front();
  if (first.substr(std::min(first.find_first_not_of(' '), first.size())) == "...") {
    for (size_t skip = 0; skip <= found.size(); ++skip) {
      if (SameLines(expected.subspan(1), found.subspan(skip))) return true;
    }
    return false;
  }
  return !found.empty() && SameLine(first, found.front()) &&
         SameLines(expected.subspan(1), found.subspan(1));
}

// The text of "<!-- `word`TEXT -->"; no value for other lines.
inline std::optional<std::string> CommentOf(const std::string& line, const std::string& word) {
  const std::string start = "<!-- " + word, end = " -->";
  if (!line.starts_with(start) || !line.ends_with(end)) return std::nullopt;
  return line.substr(start.size(), line.size() - start.size() - end.size());
}

inline std::string PageText(const std::string& page) {
  return ReadFile(std::filesystem::path(MOEPACK_SOURCE_DIR) / page);
}

struct Block {
  size_t line = 0;  // of the document
  Lines setup, text;
  std::string needs;  // a command; "" for none
  bool figures_vary = false;
};

class DocumentedPage : public testing::Test {
 protected:
  DocumentedPage() { std::filesystem::create_symlink(MOEPACK_BINARY, tools_ / "moepack"); }

  // Runs every block of a page of the source tree.
  void RunPage(const std::string& page);
  // Makes a local file or directory available by name in the directory where commands run.
  void Link(const std::filesystem::path& to, const std::string& name) {
    std::filesystem::create_directory_symlink(to, workspace_ / name);
  }
  // The page's text `shown` is replaced by `real` when its commands run.
  void Stand(const std::string& shown, const std::string& real) {
    shown_ = shown;
    real_ = real;
  }

 private:
  static std::string Exchanged(std::string text, const std::string& from, const std::string& to) {
    for (size_t at = 0; !from.empty() && (at = text.find(from, at)) != text.npos; at += to.size())
      text.replace(at, from.size(), to);
    return text;
  }

  // Stdout and stderr of a command, which sees the status of the previous one as $?.
  std::string Run(const std::string& command) {
    WriteAll(tools_ / "line.sh",
             "(exit " + std::to_string(status_) + ")\n" + Exchanged(command, shown_, real_) + "\n");
    const std::string top = "'" + workspace_.path().string() + "'";
    const std::string tools = "'" + tools_.path().string() + "'";
    const int ended = std::system(("cd " + top + " && PATH=" + tools + ":\"$PATH\" /bin/sh " +
                                   tools + "/line.sh >" + tools + "/log 2>&1")
                                      .c_str());
    status_ = WIFEXITED(ended) ? WEXITSTATUS(ended) : -1;
    return Exchanged(ReadFile(tools_ / "log"), real_, shown_);
  }

  void RunBlock(const Block& block) {
    if (!block.needs.empty() && (Run(block.needs), status_ != 0)) {
      std::cout << "NOT RUN: " << page_ << ", block at line " << block.line << ", which needs `"
                << block.needs << "`\n";
      return;
    }
    for (const std::string& command : block.setup) {
      const std::string log = Run(command);
      ASSERT_EQ(status_, 0) << command << "\n" << log;
    }
    status_ = 0;
    for (size_t i = 0; i < block.text.size();) {
      ASSERT_TRUE(block.text[i].starts_with("$ ")) << "a block begins with a command";
      std::string command = block.text[i++].substr(2);
      while (command.ends_with('|')) command += "\n" + block.text.at(i++);
      Lines expected, found;
      while (i < block.text.size() && !block.text[i].starts_with("$ "))
        expected.push_back(Steady(block.text[i++], block.figures_vary));
      for (const std::string& line : LinesOf(Run(command)))
        found.push_back(Steady(line, block.figures_vary));
      ++commands_;
      EXPECT_TRUE(SameLines(expected, found))
          << page_ << ", block at line " << block.line << ": $ " << command << "\nexpected:\n"
          << Join(expected, "\n") << "\nfound:\n"
          << Join(found, "\n");
    }
  }

  std::string page_;
  std::string shown_, real_;  // see Stand
  Workspace workspace_;
  fixtures::TempDir tools_;
  int status_ = 0;
  size_t commands_ = 0;
};

inline void DocumentedPage::RunPage(const std::string& page) {
  page_ = page;
  const Lines lines = LinesOf(PageText(page));
  Block next;
  bool left_alone = false;
  std::string file;  // that the next block is saved as
  for (size_t i = 0; i < lines.size(); ++i) {
    constexpr std::string_view kSave = "Save it as `";
    const size_t save = lines[i].find(kSave);
    if (save != std::string::npos) {
      file = lines[i].substr(save + kSave.size());
      file = file.substr(0, file.find('`'));
    }
    if (const auto setup = CommentOf(lines[i], "run: ")) next.setup.push_back(*setup);
    left_alone = left_alone || CommentOf(lines[i], "not run: ");
    if (const auto needs = CommentOf(lines[i], "needs: ")) next.needs = *needs;
    next.figures_vary = next.figures_vary || CommentOf(lines[i], "figures vary");
    if (!lines[i].starts_with("```")) continue;
    const std::string kind = lines[i].substr(3);
    next.line = i + 1;
    while (++i < lines.size() && lines[i] != "```") next.text.push_back(lines[i]);
    if (kind != "console" && !file.empty()) {
      std::string text;
      for (const std::string& line : next.text) text += line + "\n";
      WriteAll(workspace_ / std::exchange(file, ""), text);
    }
    if (kind == "console" && !left_alone) RunBlock(next);
    next = {};
    left_alone = false;
  }
  EXPECT_GT(commands_, 0u);
}

}  // namespace moepack::cli
