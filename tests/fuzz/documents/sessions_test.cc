// ReadSessions: files of texts, of JSON lines and of token ids, which come from anywhere; and token
// ids on the command line.
#include <set>

#include "fixtures/temp_dir.h"
#include "libshard/base/text/text.h"
#include "libshard/base/text/utf8.h"
#include "tests/fuzz/target.h"
#include "tools/options/session_texts.h"
#include "tools/options/token_ids.h"

namespace sessions_target {

using moepack::Cat;
using moepack::cli::TokenSession;

constexpr uint32_t kVocabulary = 256;

std::vector<std::string> Seeds() {
  return {R"({"text": "hello", "session": "a", "bucket": "code"})",
          "{\"text\": \"hello\"}\n\n{\"tokens\": [1, 255], \"session\": \"b\"}\r\n[7, 0]\n",
          "[1, 2, 3]\n[4]\n",
          " 1 2\n255\t0\r\n",
          "12,7 9",
          "any text\nof two lines"};
}

std::vector<std::string> Refused() {
  return {"",
          R"({"text": ""})",
          R"({"tokens": [256]})",
          R"({"text": "a", "tokens": [1]})",
          "{\"text\": \"a\", \"session\": \"x\"}\n{\"text\": \"b\", \"session\": \"x\"}",
          R"({"text": "a", "session": "a\u0007"})",
          "\xff"};
}

// One token for each byte.
moepack::Result<std::vector<uint32_t>> Bytes(std::string_view text) {
  std::vector<uint32_t> ids;
  for (const char c : text) ids.push_back(static_cast<unsigned char>(c));
  return ids;
}

// The names of the files that hold the input, as a text, as lines of JSON and as ids.
struct Files {
  fixtures::TempDir dir;
  std::string text = dir / "damaged.txt", lines = dir / "damaged.jsonl", ids = dir / "damaged.ids";
};
const Files* Write(std::string_view input) {
  static const Files files;
  for (const std::string& path : {files.text, files.lines, files.ids})
    if (!fuzz::WriteInput(path, input)) return nullptr;
  return &files;
}

std::string SessionsProblem(const moepack::cli::TextArguments& arguments) {
  const auto sessions = moepack::cli::ReadSessions(arguments, kVocabulary, Bytes);
  if (!sessions) return fuzz::ErrorProblem(sessions.error(), "damaged");
  if (sessions->empty()) return "accepted without a session";
  std::set<std::string> names;
  for (const TokenSession& session : *sessions) {
    if (session.tokens.empty()) return "a session without tokens";
    if (!names.insert(session.name).second) return "two sessions of one name";
    for (const std::string& name : {session.name, session.bucket}) {
      const bool control = name.find_first_of(std::string_view("\0\n\r\x1b\x7f", 5)) != name.npos;
      if (control || !moepack::IsUtf8(name)) return "a name that is not a line of text";
    }
    for (const uint32_t id : session.tokens)
      if (id >= kVocabulary) return Cat("token ", id);
    if (!session.file.starts_with("damaged.")) return "a session of another file";
  }
  return "";
}

std::string IdsProblem(std::string_view input, const std::string& path) {
  const auto ids = moepack::cli::ReadTokenIds("--tokens", path);
  if (!ids) return fuzz::ErrorProblem(ids.error(), "damaged");
  if (ids->empty()) return "accepted without an id";
  const auto direct = moepack::cli::ParseTokenIds("--tokens", input);
  if (!direct || *direct != *ids) return "other ids from a file";
  std::string text;
  for (const uint32_t id : *ids) text += Cat(text.empty() ? "" : ",", id);
  const auto again = moepack::cli::ParseTokenIds("--tokens", text);
  return again && *again == *ids ? "" : "other ids after writing";
}

std::string Check(std::string_view input) {
  const Files* files = Write(input);
  if (files == nullptr) return "cannot write the input";
  for (const auto& arguments :
       {moepack::cli::TextArguments{{files->text}, {}, "chat"},
        moepack::cli::TextArguments{{files->lines}, {}, "chat"},
        moepack::cli::TextArguments{{}, {files->ids}, "chat"},
        moepack::cli::TextArguments{{files->lines, files->text}, {files->ids}, ""}})
    if (std::string problem = SessionsProblem(arguments); !problem.empty()) return problem;
  return IdsProblem(input, files->ids);
}

// As a file of its kind: only a text that is neither JSON nor ids is a text.
bool Accepts(std::string_view input) {
  const Files* files = Write(input);
  const bool text = input.find_first_of("{[0123456789") == input.npos;
  const auto read = [](moepack::cli::TextArguments arguments) {
    return moepack::cli::ReadSessions(arguments, kVocabulary, Bytes).has_value();
  };
  if (text) return read({{files->text}, {}, ""});
  return read({{files->lines}, {}, ""}) || read({{}, {files->ids}, ""}) ||
         moepack::cli::ReadTokenIds("--tokens", files->ids).has_value();
}

constexpr fuzz::Target kTarget{
    .check = Check, .seeds = Seeds, .iterations = 3000, .accepts = Accepts, .refused = Refused};

}  // namespace sessions_target

FUZZ_JSON_TARGET(FuzzSessions, sessions_target::kTarget)
