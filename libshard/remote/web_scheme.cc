#include "libshard/base/text/quote.h"
#include "libshard/base/text/text.h"
#include "libshard/remote/http_tree.h"
#include "libshard/remote/hub_tree.h"
#include "libshard/remote/scheme.h"

namespace moepack::remote {
namespace {

std::string DownloadOfWeb(const std::string& address) {
  constexpr std::string_view kHubPages = "https://huggingface.co/";
  if (address.starts_with(kHubPages))
    return kHub.download(Cat(kHub.start, address.substr(kHubPages.size())));
  return Cat("download it first, `", ShellCommand({"curl", "-LO", address}),
             "`, then name the file");
}

// A page of the Hub is the model that it shows.
Result<Source> OpenWebAddress(const Transport& transport, const std::string& address,
                              const RemoteOptions&) {
  SHARD_TRY(const Url url, ParseUrl(address));
  SHARD_TRY(const HubSettings hub, HubSettingsFromEnvironment());
  if (const auto name = HubNameOfPage(hub, url)) return OpenHub(transport, hub, *name);
  return OpenHttp(transport, url);
}

}  // namespace

constinit const Scheme kHttps = {"https://", "https://host/path/", DownloadOfWeb, OpenWebAddress};
constinit const Scheme kHttp = {"http://", "", DownloadOfWeb, OpenWebAddress};

}  // namespace moepack::remote
