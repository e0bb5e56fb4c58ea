// Turns tensors with source ranges into tensors in memory. They stay where they are mapped if their
// bytes, or those of each of their experts, are contiguous in the required form; otherwise several
// threads copy or encode them into buffers.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "libshard/base/result.h"
#include "libshard/pack/slice.h"
#include "runtime-shim/load/source_bytes.h"
#include "runtime-shim/model/weights.h"

namespace moepack::runtime {

// Where tensors are placed: their list, the buffers made for them, and the byte count.
struct PlacedPart {
  std::vector<HostTensor>& tensors;
  std::vector<std::shared_ptr<const void>>& memory;
  LoadedPart& counts;
  // Whether the experts of a tensor may be in different places. Only matrices are: the rest is
  // small, and what reads it wants it whole.
  bool experts_apart = false;
};

// Returns kUnsupported, with tensor and type, for a type that no executor can decode.
Status CheckDecodable(const std::string& path, const std::string& tensor,
                      const quant::Format* format);

class TensorPlacer {
 public:
  // `path` names the model in errors.
  explicit TensorPlacer(std::string path) : path_(std::move(path)) {}

  // Adds the tensor to the part; its bytes are available after Run. `source` is borrowed until
  // then, and the memory it points to for as long as the tensor is used.
  Status Place(OutputTensor tensor, const SourceBytes& source, const PlacedPart& part);
  // Copies and encodes what was placed. Uses jobs and progress of the options.
  Status Run(const LoadOptions& options);

 private:
  // Some rows or bytes of a tensor, and their destination.
  struct Piece {
    const OutputTensor* tensor = nullptr;
    const SourceBytes* source = nullptr;
    std::vector<SourceRange> reads;
    RowRange rows;  // of the tensor's reader, if it has one
    std::span<std::byte> to;
  };

  Status Find(const OutputTensor& tensor, const SourceBytes& source,
              std::span<const SourceRange> ranges, std::vector<ByteView>& views) const;
  Result<TensorBytes> FindMapped(const OutputTensor& tensor, const SourceBytes& source,
                                 bool experts_apart) const;
  void AddPieces(const OutputTensor& tensor, const SourceBytes& source, std::span<std::byte> to);
  void AddRows(const OutputTensor& tensor, const SourceBytes& source, std::span<std::byte> to);
  Status Make(const Piece& piece) const;

  std::string path_;
  std::deque<OutputTensor> tensors_;  // those that pieces point to
  std::vector<Piece> pieces_;
};

}  // namespace moepack::runtime
