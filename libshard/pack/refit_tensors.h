// The tensors with which a refit replaces the source's, made from the files of a refit store in the
// source's own names and layout. Only this code decides whether a tensor of a group comes from the
// source or from the store.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "libshard/base/result.h"
#include "libshard/convert/gguf_model.h"
#include "libshard/convert/row_reader.h"
#include "libshard/format/checkpoint.h"
#include "libshard/format/output_file.h"
#include "libshard/model/model.h"
#include "libshard/pack/slice.h"
#include "libshard/plan/plan.h"
#include "libshard/refit/refit_store.h"

namespace moepack {

class RefitTensors {
 public:
  // Checks every file of the store, and that it was made for this model and plan and has every
  // layer of its groups: kMismatch for a store of another model or plan, kCorrupt for one that
  // lacks a layer or whose arrays do not fit the model's tensors. kInvalidArgument for a part of a
  // refit that lacks a group of `parts`, which are those to be written.
  static Result<RefitTensors> Of(const RefitStore& store, const MoeModel& model, const Plan& plan,
                                 const PartSelection& parts = {});
  // What a record says was refitted, without the values: the outputs have names, types and shapes,
  // but nothing to make their bytes from. A verifier compares layouts with it.
  static RefitTensors Stated(RefitRecord record);

  // Whether the accepted outcome has values for the tensor, in groups that hold experts of it.
  static bool Changes(const RefitOutcome& outcome, const ModelTensor& tensor);

  const RefitRecord& record() const { return record_; }
  // They follow the model's files among the sources of a packing run.
  const std::vector<SourceFile>& files() const { return files_; }

  // A group's tensor of a safetensors bundle with the experts `ids`; no value if the source's bytes
  // stay, and for router rows that the bundle does not have. kUnsupported for a source whose tensor
  // is not plain float.
  Result<std::optional<OutputTensor>> Make(const MoeModel& model, const ModelTensor& tensor,
                                           uint32_t group, const ExpertIds& ids) const;
  // The same for a GGUF bundle; `type` is the type to write.
  Result<std::optional<OutputTensor>> Make(const GgufTensor& tensor, const quant::Format* type,
                                           uint32_t group, const ExpertIds& ids) const;

 private:
  // What a group has in a layer.
  struct Place {
    RefittedFile file;
    uint32_t number = 0;  // of the file among the sources
    std::string path;     // of the file, for messages
  };
  // Which arrays a tensor is made from: one, or gate and up if they are fused; none for a tensor
  // that no refit changes.
  using ArrayNames = std::vector<std::string_view>;
  using Places = std::map<std::pair<uint32_t, uint32_t>, Place>;  // by layer and group

  static ArrayNames NamesOf(const TensorRule& rule, std::string_view matched);
  static Result<bool> HasArrays(const Place& place, const ArrayNames& names);
  static RowReaderPtr ExpertRows(const Place& place, const ArrayNames& names, uint32_t expert);
  static Result<RowReaderPtr> TensorRows(const MoeModel& model, const ModelTensor& tensor,
                                         const Place& place, const ExpertIds& ids);

  const Place* Find(std::optional<uint32_t> layer, uint32_t group) const;
  Status AddPlaces(const RefitStore& store, uint32_t first_file);
  Status CheckArrays(const MoeModel& model) const;

  RefitRecord record_;
  bool stated_ = false;
  Places places_;
  std::vector<SourceFile> files_;
};

}  // namespace moepack
