// Compares bundles with what their source, and a refit store, give. Types may have changed, so
// there are no bytes to compare with. Files are made again in memory, and the digests of their
// tensors and of whole files, padding included, are compared.
#include <algorithm>
#include <map>
#include <set>
#include <string_view>

#include "libshard/base/text/text.h"
#include "libshard/pack/pack.h"
#include "manifest/verify/verify_source_rules.h"

namespace moepack::manifest {

namespace {

class MadeComparison {
 public:
  MadeComparison(const MadeAgain& again, VerifyReport& report)
      : again_(again),
        report_(report),
        source_("source-bytes", report.findings),
        refit_(kRefitBytesRule, report.findings) {
    if (again.calibrated == nullptr || !again.calibrated->groups) return;
    for (const std::vector<CalibratedOutcome>& group : again.calibrated->groups->layers) {
      for (const CalibratedOutcome& layer : group) {
        for (const CalibratedTensor& tensor : layer.tensors) of_groups_.insert(tensor.name);
      }
    }
  }

  bool Compares(const OutputTensor& tensor) const {
    if (IsCalibrated(tensor)) return again_.of_calibration;
    return tensor.derived.empty() ? again_.of_source : again_.of_refit;
  }

  // Names the tensors that differ. If all were compared and none does, the difference is in the
  // padding between them.
  void Compare(const BundleRecord& bundle, const OutputFile& expected, const FileDigests& digests) {
    bool all = expected.tensors.size() == bundle.tensors.size();
    for (size_t i = 0; i < std::min(expected.tensors.size(), bundle.tensors.size()); ++i) {
      const OutputTensor& tensor = expected.tensors[i];
      CountCalibrated(tensor);
      const bool same = Compares(tensor) && CompareTensor(bundle, i, tensor, digests);
      all = all && same;
    }
    if (!all || digests.sha256 == bundle.sha256) return;
    source_.Error(Cat("header, padding and tensors: expected SHA-256 ", digests.sha256,
                      " as made from the source, found ", bundle.sha256),
                  bundle.file);
  }

  void NoteCalibrated() {
    if (calibrated_ == 0) return;
    source_.Note(Cat(Plural(calibrated_, "tensor"), ", ", FormatCount(calibrated_bytes_),
                     " bytes, were encoded on texts (calibrated): ",
                     again_.of_calibration ? "compared with the store of the calibration"
                                           : "the source cannot prove them; --calibrated-store "
                                             "compares them with the store of the calibration"));
  }

  void NoteRefit() {
    if (again_.of_refit)
      refit_.Note(Cat(Plural(refitted_, "tensor"), ", ", FormatCount(refitted_bytes_),
                      " bytes, compared with the refit store"));
  }

 private:
  // An overlay of another type than the calibrated tensors is made from the source, and what was
  // not encoded for groups, such as the rows of routers, from the refit store.
  bool IsCalibrated(const OutputTensor& tensor) const {
    if (again_.calibrated == nullptr) return false;
    if (!tensor.derived.empty() && !of_groups_.contains(tensor.entry.name)) return false;
    const CalibratedRecord::Place place = again_.calibrated->Find(tensor.entry.name);
    return place.tensor != nullptr && place.tensor->type == tensor.entry.format;
  }

  void CountCalibrated(const OutputTensor& tensor) {
    if (!IsCalibrated(tensor)) return;
    ++calibrated_;
    calibrated_bytes_ += tensor.entry.bytes;
  }

  bool CompareTensor(const BundleRecord& bundle, size_t number, const OutputTensor& tensor,
                     const FileDigests& digests) {
    const TensorRecord& found = bundle.tensors[number];
    const bool derived = !tensor.derived.empty() && !IsCalibrated(tensor);
    if (derived) {
      ++refitted_;
      refitted_bytes_ += tensor.entry.bytes;
    } else {
      report_.source_bytes += tensor.entry.bytes;
    }
    if (found.xxh3 == digests.tensors[number]) return true;
    const char* const from = IsCalibrated(tensor) ? "store of the calibration"
                             : derived            ? "refit store"
                                                  : "source";
    (derived ? refit_ : source_)
        .Error(Cat("bytes made from the ", from, ": expected xxh3-128 ", digests.tensors[number],
                   ", found ", found.xxh3),
               bundle.file, found.name);
    return false;
  }

  const MadeAgain& again_;
  VerifyReport& report_;
  RuleFindings source_, refit_;
  std::set<std::string_view> of_groups_;  // tensors that a calibration encoded for groups
  uint64_t refitted_ = 0, refitted_bytes_ = 0;
  uint64_t calibrated_ = 0, calibrated_bytes_ = 0;
};

}  // namespace

Status CheckMadeBytes(const std::vector<CheckedFile>& files, const MadeAgain& again,
                      const VerifyOptions& options, VerifyReport& report) {
  std::map<std::string_view, const BundleRecord*> bundles;
  for (const CheckedFile& file : files) {
    if (file.bundle != nullptr) bundles[file.file] = file.bundle;
  }
  MadeComparison comparison(again, report);
  // only those that the manifest lists, because a distribution may lack parts on purpose
  std::vector<OutputFile> listed;
  for (const OutputFile& file : again.files) {
    const bool compared = again.of_source || std::any_of(file.tensors.begin(), file.tensors.end(),
                                                         [&](const OutputTensor& tensor) {
                                                           return comparison.Compares(tensor);
                                                         });
    if (compared && bundles.contains(file.path)) listed.push_back(file);
  }
  PackOptions pack;
  pack.jobs = options.jobs;
  SHARD_TRY(const std::vector<FileDigests> digests, DigestOutputs(again.sources, listed, pack));
  for (size_t i = 0; i < listed.size(); ++i)
    comparison.Compare(*bundles.at(listed[i].path), listed[i], digests[i]);
  comparison.NoteCalibrated();
  comparison.NoteRefit();
  return Ok();
}

}  // namespace moepack::manifest
