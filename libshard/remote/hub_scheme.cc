#include <optional>
#include <vector>

#include "libshard/base/text/quote.h"
#include "libshard/base/text/text.h"
#include "libshard/remote/hub_tree.h"
#include "libshard/remote/scheme.h"

namespace moepack::remote {
namespace {

bool IsDownloadName(std::string_view text) {
  constexpr std::string_view kAllowed =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.";
  return !text.empty() && text[0] != '.' && text.find_first_not_of(kAllowed) == text.npos;
}

// The repository that "owner/name", "owner/name@revision" or "owner/name/file" refers to.
struct HubDownload {
  std::string repository, name, revision;
};
std::optional<HubDownload> ParseDownload(std::string_view text) {
  const size_t slash = text.find('/');
  if (slash == std::string_view::npos) return std::nullopt;
  std::string_view name = text.substr(slash + 1);
  name = name.substr(0, name.find('/'));
  HubDownload source;
  if (const size_t at = name.find('@'); at != std::string_view::npos) {
    source.revision = name.substr(at + 1);
    name = name.substr(0, at);
  }
  if (!IsDownloadName(text.substr(0, slash)) || !IsDownloadName(name)) return std::nullopt;
  source.name = name;
  source.repository = Cat(text.substr(0, slash), "/", name);
  return source;
}

std::string DownloadOfHub(const std::string& address) {
  const auto source = ParseDownload(std::string_view(address).substr(kHub.start.size()));
  if (!source) return "download the model with `hf download` first";
  std::vector<std::string> words = {"hf", "download", source->repository};
  if (!source->revision.empty()) words.insert(words.end(), {"--revision", source->revision});
  words.insert(words.end(), {"--local-dir", PathArgument(source->name)});
  return Cat("download it first, `", ShellCommand(words), "`, then name the directory ",
             ShellWord(PathArgument(source->name)));
}

Result<Source> OpenHubAddress(const Transport& transport, const std::string& address,
                              const RemoteOptions&) {
  SHARD_TRY(const std::string_view rest, NameIn(kHub, address));
  SHARD_TRY(const HubName name, ParseHubName(rest));
  SHARD_TRY(const HubSettings settings, HubSettingsFromEnvironment());
  return OpenHub(transport, settings, name);
}

// Elsewhere "owner/name" and "owner/name@revision" are enough for a model of the Hub.
std::string MeantForHub(const std::string& text) {
  const auto source = ParseDownload(text);
  if (!source || text.find('/', source->repository.size()) != std::string::npos) return "";
  const std::string revision = source->revision.empty() ? "" : Cat("@", source->revision);
  return Cat("a model of the Hugging Face Hub is named ",
             ShellWord(Cat(kHub.start, source->repository, revision)));
}

}  // namespace

constinit const Scheme kHub = {"hf://", "hf://owner/repository[@revision][/path]", DownloadOfHub,
                               OpenHubAddress, MeantForHub};

}  // namespace moepack::remote
