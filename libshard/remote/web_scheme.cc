#include "libshard/base/text/quote.h"
#include "libshard/base/text/text.h"
#include "libshard/remote/http_tree.h"
#include "libshard/remote/hub_tree.h"
#include "libshard/remote/scheme.h"

namespace moepack::remote {
namespace {

// Other addresses are those of directories.
bool IsOneFile(std::string_view address) {
  address = address.substr(0, address.find_first_of("?#"));
  return address.ends_with(".gguf") || address.ends_with(".safetensors");
}

std::string DownloadOfWeb(const std::string& address) {
  constexpr std::string_view kHubPages = "https://huggingface.co/";
  if (address.starts_with(kHubPages))
    return kHub.download(Cat(kHub.start, address.substr(kHubPages.size())));
  if (IsOneFile(address))
    return Cat("download it first, `", ShellCommand({"curl", "-LO", address}),
               "`, then name the file");
  return Cat("pull it first if it is a distribution, `",
             ShellCommand({"moepack", "pull", address, "--group", "0", "-o", "pulled"}),
             "`, then name the directory pulled; of another model, download the files");
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
