#include "manifest/document/read_back.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "libshard/base/files/unreadable.h"
#include "libshard/base/text/text.h"
#include "libshard/pack/check_outputs.h"
#include "manifest/document/describe_model.h"
#include "manifest/document/manifest_json.h"

namespace moepack::manifest {
namespace {

constexpr size_t kTensorsAtOnce = 64;  // each takes kilobytes as JSON
constexpr size_t kSha256Digits = 64, kXxh3Digits = 32;

Error Refused(const std::string& reason) {
  return moepack::Unreadable(kManifestFile, "one", reason);
}

// Copies a manifest without its tensors.
Manifest WithoutTensors(const Manifest& manifest) {
  Manifest out;
  static_cast<ManifestHead&>(out) = manifest;
  out.original = nullptr;
  for (const BundleRecord& bundle : manifest.bundles)
    static_cast<BundleHead&>(out.bundles.emplace_back()) = bundle;
  return out;
}

Status ReadBackHead(const Manifest& manifest) {
  const std::string text = WriteManifest(manifest);
  const Result<Manifest> read = ParseManifest(kManifestFile, text);
  if (!read) return Refused(read.error().message);
  if (WriteManifest(*read) != text) return Refused("it would read something else");
  // The values are compared, not their text, which would also be equal if bytes that are not UTF-8
  // had been replaced.
  if (HeadToJson(*read) == HeadToJson(manifest) && TailToJson(*read) == TailToJson(manifest))
    return Ok();
  return Refused("text that is not UTF-8 would be lost");
}

// Reads back the tensors of one bundle, a few at a time.
class TensorsBack {
 public:
  explicit TensorsBack(const BundleRecord& bundle) : bundle_(BundleToJson(bundle)) {
    bundle_.erase("cells");  // read back with the head
  }

  Status Read(std::span<const TensorRecord> tensors, uint64_t& ids_left) const {
    Json value = bundle_;
    Json& list = value["tensors"] = Json::array();
    for (const TensorRecord& tensor : tensors) list.push_back(TensorToJson(tensor));
    const auto document =
        ParseJson(kManifestFile, value.dump(-1, ' ', false, Json::error_handler_t::replace));
    if (!document) return Refused(document.error().message);
    const auto read = BundleFromJson("bundle", *document, ids_left);
    if (!read) return Refused(read.error().message);
    for (size_t i = 0; i < tensors.size(); ++i) {
      if (TensorToJson(read->tensors[i]) != list[i]) {
        return Refused(Cat("tensor ", Quoted(tensors[i].name), " would be another"));
      }
    }
    return Ok();
  }

 private:
  Json bundle_;
};

}  // namespace

Status ReadBackManifest(const Manifest& manifest) {
  SHARD_CHECK(ReadBackHead(WithoutTensors(manifest)));
  uint64_t ids_left = kMaxTensorIds;
  for (const BundleRecord& bundle : manifest.bundles) {
    const TensorsBack back(bundle);
    for (size_t at = 0; at < bundle.tensors.size(); at += kTensorsAtOnce) {
      const size_t count = std::min(kTensorsAtOnce, bundle.tensors.size() - at);
      SHARD_CHECK(back.Read(std::span(bundle.tensors).subspan(at, count), ids_left));
    }
  }
  return Ok();
}

Status ReadBackPlanned(const Manifest& manifest, const std::vector<OutputFile>& files,
                       const std::string& format) {
  SHARD_CHECK(ReadBackHeaders(files));
  const std::string sha256(kSha256Digits, '0'), xxh3(kXxh3Digits, '0');
  Manifest head = WithoutTensors(manifest);
  head.bundles.clear();
  uint64_t ids_left = kMaxTensorIds;
  for (const OutputFile& file : files) {
    BundleRecord& bundle = head.bundles.emplace_back();
    bundle.role = file.role;
    bundle.group = file.group;
    bundle.file = file.path;
    bundle.format = format;
    bundle.size = file.size;
    bundle.sha256 = sha256;
    const TensorsBack back(bundle);
    std::vector<TensorRecord> tensors;
    for (size_t i = 0; i < file.tensors.size(); ++i) {
      tensors.push_back(DescribeTensor(file.tensors[i], xxh3));
      if (tensors.size() < kTensorsAtOnce && i + 1 < file.tensors.size()) continue;
      SHARD_CHECK(back.Read(tensors, ids_left));
      tensors.clear();
    }
  }
  return ReadBackHead(head);
}

}  // namespace moepack::manifest
