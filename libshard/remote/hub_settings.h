// How the Hugging Face Hub is reached, from the variables that its own client reads
// (huggingface_hub, docs/source/en/package_reference/environment_variables.md).
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

#include "libshard/base/result.h"
#include "libshard/remote/http/url.h"

namespace moepack::remote {

struct HubSettings {
  Url endpoint;                 // HF_ENDPOINT, https://huggingface.co
  std::string token;            // HF_TOKEN, HUGGING_FACE_HUB_TOKEN or a file; "" for none
  std::filesystem::path cache;  // HF_HUB_CACHE, $HF_HOME/hub
  bool offline = false;         // HF_HUB_OFFLINE
};
// kInvalidArgument for an endpoint that is not an address.
Result<HubSettings> HubSettingsFromEnvironment();

// "hf://owner/repo[@revision][/path]".
struct HubName {
  std::string owner, repository;  // the repository without its owner
  std::string revision = "main";
  std::string path;  // "" for all of it

  std::string Id() const { return owner + "/" + repository; }
};
// `text` comes without "hf://". kInvalidArgument if it does not name a model.
Result<HubName> ParseHubName(std::string_view text);
// The same for the address of a page, "https://huggingface.co/owner/repo/tree/main"; no value for
// other addresses.
std::optional<HubName> HubNameOfPage(const HubSettings& settings, const Url& url);

}  // namespace moepack::remote
