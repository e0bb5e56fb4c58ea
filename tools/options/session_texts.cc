#include "tools/options/session_texts.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "libshard/base/files/file.h"
#include "libshard/base/text/json.h"
#include "libshard/base/text/text.h"
#include "libshard/base/text/utf8.h"
#include "runtime-shim/session/model_tokenizer.h"
#include "tools/base/sections.h"
#include "tools/options/options.h"
#include "tools/options/standard_input.h"
#include "tools/options/token_ids.h"

namespace moepack::cli {
namespace {

constexpr uint64_t kMaxTextFileBytes = 1u << 30;
constexpr std::string_view kByteOrderMark = "\xef\xbb\xbf";
constexpr std::array<std::string_view, 4> kKeys = {"text", "tokens", "session", "bucket"};
constexpr std::string_view kWhiteSpace = " \t\r\n";

// Whether a text without a name is JSON Lines: its first line that is not blank is an object as in
// a .jsonl file. Chats are meant, too, so that the reader can say what it expects instead.
bool IsJsonLines(std::string_view text) {
  const size_t first = text.find_first_not_of(kWhiteSpace);
  if (first == std::string_view::npos || text[first] != '{') return false;
  const auto line = ParseJson("", text.substr(first, text.find('\n', first) - first));
  if (!line || !line->is_object()) return false;
  return line->contains("text") || line->contains("tokens") || line->contains("messages");
}

class SessionReader {
 public:
  SessionReader(const TextArguments& arguments, uint32_t vocabulary, const Tokenize& tokenize)
      : bucket_(arguments.bucket), vocabulary_(vocabulary), tokenize_(tokenize) {
    for (const auto* paths : {&arguments.texts, &arguments.tokens}) {
      for (const std::string& path : *paths) ++files_[FileName(FileOrInput(path))];
    }
  }

  Status ReadText(const std::string& named) {
    SHARD_TRY(const std::string text, ReadFile(named));
    const std::string path = FileOrInput(named);
    const bool lines =
        named == kStandardInput ? IsJsonLines(text) : Lower(path).ends_with(".jsonl");
    if (lines) return ReadLines(path, text);
    SHARD_TRY(std::vector<uint32_t> tokens, Encode(path, text));
    return Add(path, {NameOf(path), bucket_, std::move(tokens)});
  }

  Status ReadTokens(const std::string& named) {
    const std::string path = FileOrInput(named);
    if (IsTokenIds(path)) {
      SHARD_TRY(std::vector<uint32_t> tokens, ParseTokenIds("--tokens", path));
      for (const uint32_t id : tokens) {
        if (id >= vocabulary_) {
          Error error = WrongId("--tokens", Cat(id));
          error.code = Code::kInvalidArgument;
          return error;
        }
      }
      return Add("--tokens", {Cat("tokens ", ++lists_), bucket_, std::move(tokens)});
    }
    SHARD_TRY(const std::string text, ReadFile(named));
    const size_t first = text.find_first_not_of(kWhiteSpace);
    if (first != std::string::npos && text[first] == '[') return ReadLines(path, text);
    SHARD_TRY(std::vector<uint32_t> tokens, Numbers(path, text));
    return Add(path, {NameOf(path), bucket_, std::move(tokens)});
  }

  // Records the file of the sessions that were read since the last call.
  void Mark(const std::string& path) {
    for (; marked_ < sessions_.size(); ++marked_) {
      if (!IsTokenIds(path)) sessions_[marked_].file = FileName(FileOrInput(path));
    }
  }
  std::vector<TokenSession> Take() { return std::move(sessions_); }

 private:
  // Files with the same name in several directories are distinguished by their paths.
  std::string NameOf(const std::string& path) const {
    const std::string name = FileName(path);
    return files_.at(name) > 1 ? path : name;
  }

  static Result<std::string> ReadFile(const std::string& path) {
    SHARD_TRY(std::string text, ReadFileOrInput(path, kMaxTextFileBytes));
    if (text.starts_with(kByteOrderMark)) text.erase(0, kByteOrderMark.size());
    return text;
  }

  Result<std::vector<uint32_t>> Encode(const std::string& where, std::string_view text) const {
    if (!IsUtf8(text))
      return Error{Code::kCorrupt, Cat(where, ": text: expected UTF-8, found other bytes")};
    auto tokens = tokenize_(text);
    if (!tokens) return std::move(tokens).error().Within(where);
    return tokens;
  }

  // A JSON array of ids or an object per line; empty lines are skipped.
  Status ReadLines(const std::string& path, const std::string& text) {
    size_t number = 0;
    for (const std::string& line : moepack::Split(text, '\n')) {
      ++number;
      if (line.find_first_not_of(kWhiteSpace) == std::string::npos) continue;
      const std::string where = Cat(path, ": line ", number);
      SHARD_TRY(const Json value, ParseJson(where, line));
      TokenSession session{Cat(NameOf(path), ":", number), bucket_, {}};
      SHARD_CHECK(value.is_array() ? FromArray(where, value, session)
                                   : FromObject(where, value, session));
      SHARD_CHECK(Add(where, std::move(session)));
    }
    return Ok();
  }

  Status FromObject(const std::string& where, const Json& value, TokenSession& session) const {
    if (!value.is_object())
      return Error{Code::kCorrupt, Cat(where, ": expected an object or an array of ids, found ",
                                       DescribeJson(value))};
    for (const auto& [key, ignored] : value.items()) {
      if (std::find(kKeys.begin(), kKeys.end(), key) == kKeys.end())
        return Error{
            Code::kCorrupt,
            Cat(where, ": expected \"text\", \"tokens\", \"session\" or \"bucket\", found ",
                Quoted(key))};
    }
    const JsonFields fields(value, where);
    if (fields.Has("text") && fields.Has("tokens"))
      return Error{Code::kCorrupt, Cat(where, ": expected \"text\" or \"tokens\", found both")};
    SHARD_TRY(session.name, fields.StringOr("session", std::move(session.name)));
    SHARD_TRY(session.bucket, fields.StringOr("bucket", std::move(session.bucket)));
    if (fields.Has("tokens")) {
      SHARD_TRY(const Json* tokens, fields.Array("tokens"));
      return FromArray(where, *tokens, session);
    }
    SHARD_TRY(const std::string text, fields.String("text"));
    SHARD_TRY(session.tokens, Encode(where, text));
    return Ok();
  }

  Status FromArray(const std::string& where, const Json& array, TokenSession& session) const {
    for (const Json& value : array) {
      if (!value.is_number_unsigned() || value.get<uint64_t>() >= vocabulary_)
        return WrongId(where, DescribeJson(value));
      session.tokens.push_back(value.get<uint32_t>());
    }
    return Ok();
  }

  Result<std::vector<uint32_t>> Numbers(const std::string& path, std::string_view text) const {
    std::vector<uint32_t> ids;
    size_t at = text.find_first_not_of(kWhiteSpace);
    while (at != std::string_view::npos) {
      const size_t end = std::min(text.find_first_of(kWhiteSpace, at), text.size());
      const std::string_view word = text.substr(at, end - at);
      const std::optional<uint64_t> id = ParseUint(word);
      if (!id || *id >= vocabulary_) return WrongId(path, Quoted(word));
      ids.push_back(static_cast<uint32_t>(*id));
      at = text.find_first_not_of(kWhiteSpace, end);
    }
    return ids;
  }

  Error WrongId(const std::string& where, const std::string& found) const {
    return {Code::kCorrupt,
            Cat(where, ": token: expected an id below ", vocabulary_, ", found ", found)};
  }

  // Names go into statistics and reports, but a file's name may be any bytes.
  static Status CheckName(const std::string& where, const char* what, const std::string& name) {
    if (IsUtf8(name) && !HasControlCharacter(name)) return Ok();
    return Error{Code::kCorrupt, Cat(where, ": ", what,
                                     ": expected a name in UTF-8 without control characters, "
                                     "found ",
                                     Quoted(name))};
  }

  Status Add(const std::string& where, TokenSession session) {
    if (session.tokens.empty())
      return Error{Code::kCorrupt, Cat(where, ": session: expected tokens, found none")};
    SHARD_CHECK(CheckName(where, "session", session.name));
    SHARD_CHECK(CheckName(where, "bucket", session.bucket));
    if (!names_.insert(session.name).second)
      return Error{Code::kCorrupt, Cat(where, ": session: expected a name of its own, found ",
                                       Quoted(session.name), " a second time")};
    sessions_.push_back(std::move(session));
    return Ok();
  }

  std::string bucket_;
  uint32_t vocabulary_;
  const Tokenize& tokenize_;
  std::vector<TokenSession> sessions_;
  std::set<std::string> names_;
  size_t marked_ = 0;                    // sessions whose file is known
  size_t lists_ = 0;                     // of ids instead of a file
  std::map<std::string, size_t> files_;  // how many were named, by file name
};

Error NoTexts() {
  return {Code::kInvalidArgument, "--text or --tokens is required",
          "name the files to run, such as --text notes.txt"};
}

}  // namespace

void AddTexts(CLI::App& app, TextArguments& arguments) {
  StartSection(app, "Text");
  app.add_option("--text", arguments.texts,
                 "Texts in UTF-8. Each file is one session; in a .jsonl file each line is one: "
                 "{\"text\": ...} or {\"tokens\": [...]}, optionally with \"session\" and "
                 "\"bucket\". Several files may follow, and the option may be repeated; - is "
                 "standard input, a text or such lines.")
      ->type_name("FILE");
  app.add_option("--tokens", arguments.tokens,
                 "Token ids, such as 12,7,9, or the name of a file of ids. The ids of a file are "
                 "one session if they are separated by white space; JSON arrays are one session "
                 "per line. Several may follow, as with --text; - is standard input.")
      ->type_name("IDS|FILE");
  app.add_option("--bucket", arguments.bucket,
                 "The kind of text (code, chat, math, ...), for sessions that do not state it.")
      ->type_name("NAME")
      ->check(AsUtf8());
}

Tokenize TokenizeAs(std::shared_ptr<const runtime::Weights> weights) {
  std::shared_ptr<const runtime::Tokenizer> tokenizer;
  return [weights, tokenizer](std::string_view text) mutable -> Result<std::vector<uint32_t>> {
    if (!tokenizer) {
      SHARD_TRY(tokenizer, runtime::OpenTokenizer(*weights));
    }
    return tokenizer->Encode(text, {});
  };
}

std::function<bool(uint32_t id)> EndsGeneration(const runtime::Weights& weights) {
  auto opened = runtime::OpenTokenizer(weights);
  if (!opened) return [](uint32_t) { return false; };
  const std::shared_ptr<const runtime::Tokenizer> tokenizer = *std::move(opened);
  return [tokenizer](uint32_t id) { return tokenizer->IsEnd(id); };
}

void AddNamedFiles(const TextArguments& arguments, std::vector<std::string>& files) {
  for (const std::string& text : arguments.texts) {
    if (text != kStandardInput) files.push_back(text);
  }
  for (const std::string& tokens : arguments.tokens) {
    if (!IsTokenIds(tokens) && tokens != kStandardInput) files.push_back(tokens);
  }
}

Status CheckTextFiles(const TextArguments& arguments) {
  if (arguments.texts.empty() && arguments.tokens.empty()) return NoTexts();
  for (const std::string& path : arguments.texts)
    SHARD_CHECK(ReadFileOrInput(path, kMaxTextFileBytes));
  for (const std::string& path : arguments.tokens) {
    if (!IsTokenIds(path)) SHARD_CHECK(ReadFileOrInput(path, kMaxTextFileBytes));
  }
  return Ok();
}

Result<std::vector<TokenSession>> ReadSessions(const TextArguments& arguments, uint32_t vocabulary,
                                               const Tokenize& tokenize) {
  SessionReader reader(arguments, vocabulary, tokenize);
  for (const std::string& path : arguments.texts) {
    SHARD_CHECK(reader.ReadText(path));
    reader.Mark(path);
  }
  for (const std::string& path : arguments.tokens) {
    SHARD_CHECK(reader.ReadTokens(path));
    reader.Mark(path);
  }
  std::vector<TokenSession> sessions = reader.Take();
  if (sessions.empty() && !arguments.texts.empty())
    return Error{Code::kInvalidArgument,
                 Cat(Shown(FileOrInput(arguments.texts.front())), ": expected text, found none")};
  if (sessions.empty()) return NoTexts();
  return sessions;
}

}  // namespace moepack::cli
