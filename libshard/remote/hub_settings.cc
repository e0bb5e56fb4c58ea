#include "libshard/remote/hub_settings.h"

#include <algorithm>

#include "libshard/base/files/file.h"
#include "libshard/base/files/inside_path.h"
#include "libshard/base/text/text.h"
#include "libshard/remote/http/http_settings.h"

namespace moepack::remote {
namespace {

constexpr uint64_t kMostToken = 4096;

std::string FirstOf(std::initializer_list<const char*> names) {
  for (const char* name : names) {
    std::string value = Environment(name);
    if (!value.empty()) return value;
  }
  return "";
}

fs::path HomeOfHub() {
  if (const std::string home = Environment("HF_HOME"); !home.empty()) return home;
  const std::string cache = Environment("XDG_CACHE_HOME");
  return (cache.empty() ? fs::path(Environment("HOME")) / ".cache" : fs::path(cache)) /
         "huggingface";
}

// Tokens are printable; what surrounds them in a file is not part of them.
std::string CleanToken(std::string token) {
  const auto blank = [](char c) { return c <= ' ' || c >= 127; };
  std::erase_if(token, blank);
  return token;
}

std::string TokenOfFile(const fs::path& path) {
  const Result<std::string> text = ReadTextFile(path, kMostToken);
  return text ? *text : "";
}

bool IsHubWord(std::string_view text) {
  const auto allowed = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
           c == '_' || c == '.';
  };
  return !text.empty() && text != "." && text != ".." &&
         std::all_of(text.begin(), text.end(), allowed);
}

Error NoHubName(std::string_view text) {
  return {Code::kInvalidArgument,
          Cat("hf://: expected owner/repository[@revision][/path], found ", Quoted(text)),
          "for example hf://Qwen/Qwen3-30B-A3B, or @ and a branch, tag or commit behind it"};
}

// "refs/pr/7/model.gguf" -> "refs/pr/7": the only revision with slashes that needs no escapes.
size_t EndOfRevision(std::string_view text) {
  constexpr std::string_view kPullRequest = "refs/pr/", kConverted = "refs/convert/";
  for (const std::string_view start : {kPullRequest, kConverted}) {
    if (text.starts_with(start)) return std::min(text.find('/', start.size()), text.size());
  }
  return std::min(text.find('/'), text.size());
}

}  // namespace

Result<HubSettings> HubSettingsFromEnvironment() {
  HubSettings settings;
  const std::string endpoint = Environment("HF_ENDPOINT");
  Result<Url> url = ParseUrl(endpoint.empty() ? "https://huggingface.co" : endpoint);
  if (!url) return Error(url.error()).Within("HF_ENDPOINT");
  settings.endpoint = *std::move(url);
  settings.offline = IsSwitchedOn("HF_HUB_OFFLINE");
  settings.cache = FirstOf({"HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE"});
  if (settings.cache.empty()) settings.cache = HomeOfHub() / "hub";
  if (IsSwitchedOn("HF_HUB_DISABLE_IMPLICIT_TOKEN")) return settings;
  std::string token = FirstOf({"HF_TOKEN", "HUGGING_FACE_HUB_TOKEN"});
  const std::string file = Environment("HF_TOKEN_PATH");
  if (token.empty()) token = TokenOfFile(file.empty() ? HomeOfHub() / "token" : fs::path(file));
  settings.token = CleanToken(std::move(token));
  return settings;
}

Result<HubName> ParseHubName(std::string_view text) {
  HubName name;
  std::string_view rest = text;
  while (rest.ends_with('/')) rest.remove_suffix(1);
  const size_t slash = rest.find('/');
  if (slash == rest.npos) return NoHubName(text);
  name.owner = rest.substr(0, slash);
  rest.remove_prefix(slash + 1);
  const size_t end = std::min(rest.find_first_of("@/"), rest.size());
  name.repository = rest.substr(0, end);
  rest.remove_prefix(end);
  if (rest.starts_with('@')) {
    rest.remove_prefix(1);
    const size_t revision = EndOfRevision(rest);
    name.revision = DecodePercent(rest.substr(0, revision));
    rest.remove_prefix(revision);
  }
  if (rest.starts_with('/')) name.path = rest.substr(1);
  const bool kind = name.owner == "datasets" || name.owner == "spaces";
  const bool right = !kind && IsHubWord(name.owner) && IsHubWord(name.repository) &&
                     StaysBelow(name.revision) && (name.path.empty() || StaysBelow(name.path));
  if (!right) return NoHubName(text);
  return name;
}

std::optional<HubName> HubNameOfPage(const HubSettings& settings, const Url& url) {
  if (!url.SameOrigin(settings.endpoint)) return std::nullopt;
  std::vector<std::string> parts = Split(DecodePercent(url.path).substr(1), '/');
  while (!parts.empty() && parts.back().empty()) parts.pop_back();
  if (parts.size() < 2) return std::nullopt;
  const bool has_revision =
      parts.size() > 3 && (parts[2] == "tree" || parts[2] == "blob" || parts[2] == "resolve");
  if (parts.size() > 2 && !has_revision) return std::nullopt;
  std::string text = Cat(parts[0], "/", parts[1]);
  if (has_revision) text += Cat("@", EncodeComponent(parts[3]));
  for (size_t i = 4; i < parts.size(); ++i) text += Cat("/", parts[i]);
  const Result<HubName> name = ParseHubName(text);
  return name ? std::optional(*name) : std::nullopt;
}

}  // namespace moepack::remote
