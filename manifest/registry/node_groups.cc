#include "manifest/registry/node_groups.h"

#include <algorithm>
#include <set>

#include "libshard/base/text/text.h"
#include "manifest/registry/artifact/describe_set.h"

namespace moepack::registry {

Result<std::vector<uint32_t>> GroupsOf(const std::string& where, const OciManifest& oci) {
  std::set<std::string> with_layers;
  for (const BlobRecord& layer : oci.layers)
    with_layers.insert(AnnotationOf(layer.annotations, kGroupKey));
  std::vector<uint32_t> groups;
  const std::string text = AnnotationOf(oci.annotations, kGroupsKey);
  if (text.empty()) return groups;
  for (const std::string& word : Split(text, ',')) {
    const std::optional<uint64_t> number = ParseUint(word);
    if (!number || *number > UINT32_MAX || GroupText(*number) != word) {
      return Error{Code::kCorrupt,
                   Cat(where, ": ", kGroupsKey, ": expected groups, found ", Quoted(word))};
    }
    if (with_layers.contains(word)) groups.push_back(static_cast<uint32_t>(*number));
  }
  std::sort(groups.begin(), groups.end());
  groups.erase(std::unique(groups.begin(), groups.end()), groups.end());
  return groups;
}

uint64_t BytesOf(const std::vector<BlobRecord>& layers) {
  uint64_t bytes = 0;
  for (const BlobRecord& layer : layers) bytes += layer.size;
  return bytes;
}

std::vector<BlobRecord> NewLayers(const std::vector<BlobRecord>& before,
                                  const std::vector<BlobRecord>& layers) {
  std::set<std::string> there;
  for (const BlobRecord& layer : before) there.insert(layer.digest);
  std::vector<BlobRecord> fresh;
  for (const BlobRecord& layer : layers) {
    if (there.insert(layer.digest).second) fresh.push_back(layer);
  }
  return fresh;
}

}  // namespace moepack::registry
