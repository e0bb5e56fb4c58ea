// Compares GGUF bundles with their source. Types may have changed, so the source has no bytes to
// compare with. Every file is made again in memory, and the digests of its tensors and of the whole
// file, padding included, are compared.
#include <algorithm>
#include <map>

#include "libshard/base/text/text.h"
#include "libshard/pack/pack.h"
#include "manifest/verify/verify_source_rules.h"

namespace moepack::manifest {

namespace {

// Names the tensors that differ. If none does, the difference is in the padding between them.
void CompareFile(const BundleRecord& bundle, const OutputFile& expected, const FileDigests& digests,
                 RuleFindings& findings) {
  bool same_tensors = expected.tensors.size() == bundle.tensors.size(), derived = false;
  for (size_t i = 0; i < std::min(expected.tensors.size(), bundle.tensors.size()); ++i) {
    const TensorRecord& found = bundle.tensors[i];
    // What a refit made does not come from the source; its layout has been compared.
    derived = derived || !expected.tensors[i].derived.empty();
    if (!expected.tensors[i].derived.empty()) continue;
    if (found.xxh3 == digests.tensors[i]) continue;
    same_tensors = false;
    findings.Error(Cat("bytes made from the source: expected xxh3-128 ", digests.tensors[i],
                       ", found ", found.xxh3),
                   bundle.file, found.name);
  }
  if (!same_tensors || derived || digests.sha256 == bundle.sha256) return;
  findings.Error(Cat("header, padding and tensors: expected SHA-256 ", digests.sha256,
                     " as made from the source, found ", bundle.sha256),
                 bundle.file);
}

}  // namespace

Status CheckGgufBytes(const std::vector<CheckedFile>& files,
                      const std::vector<OutputFile>& expected, const MoeModel& model,
                      const VerifyOptions& options, VerifyReport& report) {
  std::map<std::string_view, const BundleRecord*> bundles;
  for (const CheckedFile& file : files) {
    if (file.bundle != nullptr) bundles[file.file] = file.bundle;
  }
  // only those that the manifest lists, because a distribution may lack parts on purpose
  std::vector<OutputFile> listed;
  for (const OutputFile& file : expected) {
    if (bundles.contains(file.path)) listed.push_back(file);
  }
  PackOptions pack;
  pack.jobs = options.jobs;
  SHARD_TRY(const std::vector<FileDigests> digests,
            DigestOutputs(model.checkpoint().files(), listed, pack));
  RuleFindings findings("source-bytes", report.findings);
  for (size_t i = 0; i < listed.size(); ++i) {
    CompareFile(*bundles.at(listed[i].path), listed[i], digests[i], findings);
    for (const OutputTensor& tensor : listed[i].tensors) {
      if (tensor.derived.empty()) report.source_bytes += tensor.entry.bytes;
    }
  }
  return Ok();
}

}  // namespace moepack::manifest
