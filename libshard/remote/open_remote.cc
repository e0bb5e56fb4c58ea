#include "libshard/remote/open_remote.h"

#include <string_view>
#include <utility>

#include "libshard/base/text/text.h"
#include "libshard/remote/http_tree.h"
#include "libshard/remote/hub_tree.h"
#include "libshard/remote/s3_tree.h"

namespace moepack::remote {
namespace {

constexpr uint64_t kMostWholeFiles = 1u << 30;

Result<HttpClientPtr> MakeClient(const RemoteOptions& options) {
  SHARD_TRY(HttpSettings settings, SettingsFromEnvironment());
  settings.plain_http = options.plain_http;
  if (options.full_download) settings.whole_files = kMostWholeFiles;
  settings.compared = options.compared;
  settings.warn = options.warn;
  return HttpClientPtr(std::make_shared<HttpClient>(std::move(settings)));
}

std::shared_ptr<RangeCache> OpenCache(const RemoteOptions& options) {
  if (options.cache.empty()) return nullptr;
  return RangeCache::Open(options.cache, options.cache_size, options.warn);
}

// A password in an address must not be repeated in a message.
Status CheckNoUser(const std::string& scheme, std::string_view text) {
  const std::string_view rest = text.substr(scheme.size());
  if (rest.substr(0, rest.find('/')).find('@') == rest.npos) return Ok();
  return Error{Code::kInvalidArgument,
               Cat(scheme, ": expected a name, found a user or password in front of one"),
               "leave it out: keys and tokens come from the environment (docs/remote.md)"};
}

Result<Source> OpenUrl(const Transport& transport, const std::string& source) {
  SHARD_TRY(const Url url, ParseUrl(source));
  SHARD_TRY(const HubSettings hub, HubSettingsFromEnvironment());
  if (const auto name = HubNameOfPage(hub, url)) return OpenHub(transport, hub, *name);
  return OpenHttp(transport, url);
}

Result<Source> OpenHubName(const Transport& transport, std::string_view rest,
                           const RemoteOptions&) {
  SHARD_TRY(const HubName name, ParseHubName(rest));
  SHARD_TRY(const HubSettings settings, HubSettingsFromEnvironment());
  return OpenHub(transport, settings, name);
}

Result<Source> OpenBucket(const Transport& transport, std::string_view rest,
                          const RemoteOptions& options) {
  SHARD_TRY(const S3Name name, ParseS3Name(rest));
  SHARD_TRY(const S3Settings settings, S3SettingsFromEnvironment(options.endpoint));
  return OpenS3(transport, settings, name);
}

// The schemes that are no web addresses: how each opens what follows its start.
struct Scheme {
  std::string_view start;
  Result<Source> (*open)(const Transport&, std::string_view rest, const RemoteOptions&);
};
constexpr Scheme kSchemes[] = {{"hf://", OpenHubName}, {"s3://", OpenBucket}};

}  // namespace

Result<Source> OpenAddress(const std::string& source, const RemoteOptions& options) {
  SHARD_TRY(HttpClientPtr client, MakeClient(options));
  const Transport transport = MakeTransport(std::move(client), OpenCache(options));
  const std::string_view text = source;
  for (const Scheme& scheme : kSchemes) {
    if (Lower(text.substr(0, scheme.start.size())) != scheme.start) continue;
    SHARD_CHECK(CheckNoUser(std::string(scheme.start), text));
    return scheme.open(transport, text.substr(scheme.start.size()), options);
  }
  return OpenUrl(transport, source);
}

uint64_t BytesFromCache(const SourceTree& tree) {
  const auto* remote = dynamic_cast<const RemoteTree*>(&tree);
  return remote == nullptr ? 0 : remote->from_cache();
}

}  // namespace moepack::remote
