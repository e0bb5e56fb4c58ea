#include "manifest/registry/server/credential_helper.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "libshard/base/text/json.h"
#include "libshard/base/text/text.h"

namespace moepack::registry {
namespace {

constexpr size_t kMostServer = 1024;
constexpr size_t kMostName = 200;  // a file's name has at most 255 bytes
constexpr size_t kMostReason = 200;

std::string_view FirstLine(std::string_view text) {
  const size_t start = text.find_first_not_of(" \t\r\n");
  if (start == text.npos) return "";
  text.remove_prefix(start);
  return text.substr(0, text.find_first_of("\r\n"));
}

// No value for anything but an object with the two texts. The error is not described, because the
// text contains a password.
std::optional<HelperAnswer> ParseAnswer(const std::string& text) {
  const Result<Json> document = ParseJson("answer", text);
  if (!document || !document->is_object()) return std::nullopt;
  const auto user = document->find("Username"), secret = document->find("Secret");
  if (user == document->end() || !user->is_string()) return std::nullopt;
  if (secret == document->end() || !secret->is_string()) return std::nullopt;
  return HelperAnswer{user->get<std::string>(), secret->get<std::string>()};
}

// Why it failed, in its own words. A helper that fails after starting its answer is not quoted at
// all.
std::string ReasonOf(const ProgramRun& run) {
  const std::string_view line = FirstLine(FirstLine(run.errors).empty() ? run.output : run.errors);
  const std::string lower = Lower(Cat(run.output, run.errors));
  if (line.empty() || line.find('{') != line.npos || lower.find("\"secret\"") != lower.npos)
    return "";
  return Cat(": ", Shown(line.substr(0, kMostReason)));
}

}  // namespace

bool IsHelperName(std::string_view name) {
  return !name.empty() && name.size() <= kMostName &&
         std::all_of(name.begin(), name.end(), [](char c) {
           return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                  c == '_' || c == '.' || c == '-';
         });
}

Result<std::optional<HelperAnswer>> AskCredentialHelper(const std::string& name,
                                                        const std::string& server,
                                                        const ProgramLimits& limits) {
  if (!IsHelperName(name)) {
    return Error{Code::kInvalidArgument,
                 Cat("credential helper: expected a name of letters, digits, '_', '.' and '-', "
                     "found ",
                     Quoted(name))};
  }
  if (server.size() > kMostServer)
    return Error{Code::kInvalidArgument, "credential helper: the name of the registry is too long"};
  const std::string program = Cat("docker-credential-", name);
  Result<ProgramRun> run = RunProgram({program, "get"}, server, limits);
  if (!run) {
    Error error = run.error();
    if (error.code != Code::kNotFound) return error;
    error.code = Code::kUnavailable;
    error.hint = "install it, or remove it from the file that names it and log in again";
    return error;
  }
  if (run->status != 0) {
    const std::string words = Lower(Cat(run->output, run->errors));
    if (words.find("credentials not found") != words.npos) return std::optional<HelperAnswer>();
    return Error{Code::kIo,
                 Cat(program, ": get ", Shown(server), ": expected exit status 0, found ",
                     run->status, ReasonOf(*run)),
                 "run it by hand to see what it lacks: an unlocked keyring, a login"};
  }
  std::optional<HelperAnswer> answer = ParseAnswer(run->output);
  if (!answer) {
    return Error{Code::kCorrupt,
                 Cat(program, ": get ", Shown(server),
                     ": expected JSON with Username and Secret, found something else")};
  }
  if (answer->secret.empty()) return std::optional<HelperAnswer>();
  return answer;
}

}  // namespace moepack::registry
