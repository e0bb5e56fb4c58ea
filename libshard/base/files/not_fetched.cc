#include "libshard/base/files/not_fetched.h"

#include <algorithm>
#include <iterator>
#include <optional>
#include <vector>

#include "libshard/base/text/quote.h"
#include "libshard/base/text/text.h"

namespace moepack {
namespace {

// https://github.com/git-lfs/git-lfs/blob/main/docs/spec.md; older clients wrote the other URL.
constexpr std::string_view kPointers[] = {"version https://git-lfs.github.com/spec/",
                                          "version https://hawser.github.com/spec/"};
constexpr size_t kMaxPointer = 1024;
constexpr std::string_view kHub = "https://huggingface.co/";

// The size that a pointer states.
std::optional<uint64_t> StatedSize(std::string_view pointer) {
  constexpr std::string_view kSize = "\nsize ";
  const size_t at = pointer.find(kSize);
  if (at == std::string_view::npos) return std::nullopt;
  const std::string_view rest = pointer.substr(at + kSize.size());
  return ParseUint(rest.substr(0, rest.find_first_of("\r\n")));
}

bool IsHubName(std::string_view text) {
  constexpr std::string_view kAllowed =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.";
  return !text.empty() && text[0] != '.' && text.find_first_not_of(kAllowed) == text.npos;
}

// The repository that "owner/name", "owner/name@revision" or "owner/name/file" refers to.
struct HubSource {
  std::string repository, name, revision;
};
std::optional<HubSource> ParseHubSource(std::string_view text) {
  const size_t slash = text.find('/');
  if (slash == std::string_view::npos) return std::nullopt;
  std::string_view name = text.substr(slash + 1);
  name = name.substr(0, name.find('/'));
  HubSource source;
  if (const size_t at = name.find('@'); at != std::string_view::npos) {
    source.revision = name.substr(at + 1);
    name = name.substr(0, at);
  }
  if (!IsHubName(text.substr(0, slash)) || !IsHubName(name)) return std::nullopt;
  source.name = name;
  source.repository = Cat(text.substr(0, slash), "/", name);
  return source;
}

std::string DownloadHint(const HubSource& source) {
  std::vector<std::string> words = {"hf", "download", source.repository};
  if (!source.revision.empty()) words.insert(words.end(), {"--revision", source.revision});
  words.insert(words.end(), {"--local-dir", PathArgument(source.name)});
  return Cat("download it first, `", ShellCommand(words), "`, then name the directory ",
             ShellWord(PathArgument(source.name)));
}

constexpr const char* kLater = "this command reads local files only: ";

}  // namespace

Status CheckNoLfsPointer(const std::string& path, std::string_view beginning) {
  for (const std::string_view start : kPointers) {
    if (!beginning.starts_with(start)) continue;
    const auto size = StatedSize(beginning.substr(0, kMaxPointer));
    return Error{Code::kNotFound,
                 Cat(path, ": expected the file itself, found a Git LFS pointer to ",
                     size ? FormatBytes(*size) : std::string("it")),
                 "run `git lfs pull` in the clone to fetch what its pointers stand for"};
  }
  return Ok();
}

Status CheckNoLfsPointer(const std::string& path, std::span<const std::byte> beginning) {
  return CheckNoLfsPointer(
      path, std::string_view(reinterpret_cast<const char*>(beginning.data()), beginning.size()));
}

bool IsAddress(std::string_view source) {
  constexpr std::string_view kSchemes[] = {"hf://", "s3://", "https://", "http://"};
  const std::string lower = Lower(source.substr(0, source.find("://") + 3));
  return std::any_of(std::begin(kSchemes), std::end(kSchemes),
                     [&](std::string_view scheme) { return lower == scheme; });
}

std::string WithoutSecrets(const std::string& source) {
  const size_t scheme = source.find("://");
  if (scheme == source.npos || source.find('/') < scheme) return source;
  const size_t host = scheme + 3;
  const size_t path = std::min(source.find_first_of("/?#", host), source.size());
  const size_t user = source.rfind('@', path);
  const size_t from = user != source.npos && user >= host ? user + 1 : host;
  const std::string web = Lower(source.substr(0, host));
  const bool query = web == "https://" || web == "http://";
  const size_t end =
      query ? std::min(source.find_first_of("?#", path), source.size()) : source.size();
  return Cat(source.substr(0, host), source.substr(from, end - from));
}

std::string RemoteSourceHint(const std::string& named) {
  const std::string source = WithoutSecrets(named);
  constexpr std::string_view kHubScheme = "hf://";
  for (const std::string_view scheme : {kHubScheme, kHub}) {
    if (!source.starts_with(scheme)) continue;
    const auto hub = ParseHubSource(std::string_view(source).substr(scheme.size()));
    return kLater + (hub ? DownloadHint(*hub) : "download the model with `hf download` first");
  }
  if (source.starts_with("s3://"))
    return Cat(kLater, "download it first, `",
               ShellCommand({"aws", "s3", "cp", "--recursive", source, "model"}),
               "`, then name the directory model");
  if (source.starts_with("https://") || source.starts_with("http://"))
    return Cat(kLater, "download it first, `", ShellCommand({"curl", "-LO", source}),
               "`, then name the file");
  const auto hub = ParseHubSource(source);
  if (!hub || source.find('/', hub->repository.size()) != std::string::npos) return "";
  const std::string revision = hub->revision.empty() ? "" : Cat("@", hub->revision);
  return Cat("a model of the Hugging Face Hub is named ",
             ShellWord(Cat(kHubScheme, hub->repository, revision)));
}

}  // namespace moepack
