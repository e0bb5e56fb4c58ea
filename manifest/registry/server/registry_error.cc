#include "manifest/registry/server/registry_error.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "libshard/base/text/json.h"
#include "libshard/base/text/text.h"
#include "manifest/registry/server/credentials.h"

namespace moepack::registry {
namespace {

constexpr size_t kMostWords = 200;

// "BLOB_UNKNOWN": a word that can be in a message as it is.
bool IsErrorCode(std::string_view text) {
  constexpr size_t kMost = 64;
  return !text.empty() && text.size() <= kMost && std::all_of(text.begin(), text.end(), [](char c) {
    return (c >= 'A' && c <= 'Z') || c == '_';
  });
}

// The first of {"errors":[{"code":...,"message":...}]}, or "".
std::string FirstError(const remote::HttpReply& reply) {
  const auto document = ParseJson("", reply.body);
  if (!document || !document->is_object() || !document->contains("errors")) return "";
  const Json& errors = document->at("errors");
  if (!errors.is_array() || errors.empty()) return "";
  const std::string code = TextMember(errors[0], "code");
  const std::string message = TextMember(errors[0], "message");
  if (!IsErrorCode(code)) return "";
  if (message.empty() || !reply.quotable) return code;
  return Cat(code, ": ", Quoted(message.substr(0, kMostWords)));
}

// The title of a proxy's error page: `: "502 Bad Gateway"`, or "".
std::string TitleOf(const remote::HttpReply& reply) {
  constexpr std::string_view kBegin = "<title>", kEnd = "</title>";
  const std::string page = Lower(reply.body);
  const size_t begin = page.find(kBegin), end = page.find(kEnd);
  if (!reply.quotable || begin == page.npos || end == page.npos || end < begin) return "";
  const size_t from = begin + kBegin.size();
  return Cat(": ", Quoted(reply.body.substr(from, std::min(end - from, kMostWords))));
}

Error Denied(const RefusedRequest& refused, int status, const std::string& words) {
  const bool anonymous = refused.credentials == Credentials().Shown();
  return {Code::kIo,
          Cat(refused.what, ": expected access to ", refused.scopes, ", found status ", status,
              " from ", refused.host, words, "; asked with ", refused.credentials),
          anonymous ? "log in: give --username and --password-stdin, or log in with docker, podman "
                      "or skopeo"
                    : "check the user's name and password or the token, that they may do this in "
                      "this repository, and that its name is right"};
}

// Credentials are for the registry, not for where it keeps its blobs.
Error StorageRefuses(const RefusedRequest& refused, int status, const std::string& words) {
  return {Code::kIo,
          Cat(refused.what, ": expected the storage to which the registry leads to answer, found ",
              "status ", status, " from ", refused.host, words),
          "its address may have expired, or the clocks differ: run the command again; if it stays, "
          "the registry or its storage is at fault"};
}

Error NoSuch(const RefusedRequest& refused, int status, const std::string& words) {
  return {Code::kNotFound,
          Cat(refused.what, ": not found, or no permission (status ", status, words, ")"),
          "check the spelling, and that the credentials may see the repository: registries answer "
          "the same for both"};
}

Error TooLarge(const RefusedRequest& refused, const std::string& words) {
  return {
      Code::kIo,
      Cat(refused.what, ": expected it to be accepted, found status 413 (too large)", words),
      "raise the limit for request bodies of the proxy in front of the registry, or send smaller "
      "pieces: --upload chunked --chunk-size 16MiB"};
}

}  // namespace

std::string RegistryWords(const remote::HttpReply& reply) {
  if (reply.body.empty()) return "";
  if (const std::string error = FirstError(reply); !error.empty()) return error;
  const bool page = reply.Field("content-type").find("html") != std::string_view::npos ||
                    Lower(reply.body.substr(0, kMostWords)).find("<html") != std::string::npos;
  if (page) return Cat("a web page", TitleOf(reply));
  return reply.quotable ? Quoted(reply.body.substr(0, kMostWords)) : "";
}

Error RegistryError(const RefusedRequest& refused, const remote::HttpReply& reply) {
  const int status = reply.status;
  std::string words = RegistryWords(reply);
  if (!words.empty()) words = Cat(", ", words);
  const bool denied = status == 401 || status == 403;
  if (denied && refused.elsewhere) return StorageRefuses(refused, status, words);
  if (denied) return Denied(refused, status, words);
  if (status == 404) return NoSuch(refused, status, words);
  if (status == 413) return TooLarge(refused, words);
  const bool busy = remote::IsTransient(status);
  return {busy ? Code::kUnavailable : Code::kIo,
          Cat(refused.what, ": expected ", refused.host, " to do it, found status ", status, words),
          busy ? "the registry has a problem or limits requests: run the command again later" : ""};
}

}  // namespace moepack::registry
