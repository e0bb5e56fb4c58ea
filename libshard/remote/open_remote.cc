#include "libshard/remote/open_remote.h"

#include <utility>

#include "libshard/remote/remote_tree.h"
#include "libshard/remote/scheme.h"

namespace moepack::remote {
namespace {

constexpr uint64_t kMostWholeFiles = 1u << 30;

Result<HttpClientPtr> MakeClient(const RemoteOptions& options) {
  SHARD_TRY(HttpSettings settings, SettingsFromEnvironment());
  settings.plain_http = options.plain_http;
  if (options.full_download) settings.whole_files = kMostWholeFiles;
  settings.may_allow_whole_files = options.has_full_download;
  settings.compared = options.compared;
  settings.warn = options.warn;
  return HttpClientPtr(std::make_shared<HttpClient>(std::move(settings)));
}

std::shared_ptr<RangeCache> OpenCache(const RemoteOptions& options) {
  if (options.cache.empty()) return nullptr;
  return RangeCache::Open(options.cache, options.cache_size, options.warn);
}

}  // namespace

Result<Source> OpenAddress(const std::string& source, const RemoteOptions& options) {
  SHARD_TRY(HttpClientPtr client, MakeClient(options));
  const Transport transport = MakeTransport(std::move(client), OpenCache(options));
  return FindScheme(source)->open(transport, source, options);
}

uint64_t BytesFromCache(const SourceTree& tree) {
  const auto* remote = dynamic_cast<const RemoteTree*>(&tree);
  return remote == nullptr ? 0 : remote->from_cache();
}

}  // namespace moepack::remote
