// ParseOciManifest: a parsed manifest can be written and read back, and names no file outside.
#include "manifest/registry/artifact/oci_manifest.h"

#include "libshard/base/files/inside_path.h"
#include "libshard/base/text/text.h"
#include "manifest/registry/artifact/describe_set.h"
#include "tests/fuzz/target.h"
#include "tests/manifest/document/sample.h"

namespace oci_manifest_target {

constexpr const char* kWhere = "damaged/layout";

std::vector<std::string> Seeds() {
  using namespace moepack::registry;
  const std::string digest = "sha256:" + std::string(64, 'a');
  const sample::Distribution whole = sample::Make();
  const SmallFiles files{{digest, 100}, SmallFile{digest, 10}};
  OciManifest set = DescribeSet(whole.manifest, files);
  OciManifest view = DescribeView(whole.manifest, files, 1, digest);
  set.config = view.config = {kConfigType, digest, 7};
  return {WriteOciManifest(set), WriteOciManifest(view)};
}

std::string Check(std::string_view input) {
  using namespace moepack::registry;
  const auto read = ParseOciManifest(kWhere, input);
  if (!read) return fuzz::ErrorProblem(read.error(), kWhere);
  for (const BlobRecord& layer : read->layers) {
    const std::string path = layer.path();
    if (!path.empty() && !moepack::IsSafeRelativePath(path))
      return moepack::Cat("a path outside: ", path);
  }
  const std::string text = WriteOciManifest(*read);
  const auto again = ParseOciManifest(kWhere, text);
  if (!again) return moepack::Cat("refused after writing: ", again.error().message);
  return WriteOciManifest(*again) == text ? "" : "another manifest after writing twice";
}

constexpr fuzz::Target kTarget{Check, Seeds, 2000, 500};

}  // namespace oci_manifest_target

FUZZ_JSON_TARGET(FuzzOciManifest, oci_manifest_target::kTarget)
