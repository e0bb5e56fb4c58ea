#include "runtime-shim/load/tensor_placer.h"

#include <algorithm>
#include <cstring>
#include <numeric>

#include "libshard/base/files/mapped_file.h"
#include "libshard/base/files/scan_file.h"
#include "libshard/base/parallel.h"
#include "libshard/base/progress.h"
#include "libshard/base/text/text.h"
#include "libshard/convert/row_reader.h"
#include "libshard/pack/encode_rows.h"

namespace moepack::runtime {

namespace {

// The bytes that a thread handles at a time, few enough to stay in its cache.
constexpr uint64_t kPieceBytes = 1u << 20;
// If rows run across what is read, larger pieces avoid reading the same pages again and again.
constexpr uint64_t kScatteredBytes = 16u << 20;
// Executors read F32 values and the scales of blocks in place.
constexpr uint64_t kAlignment = 4;

// The smallest run of bytes that can be made separately: the bytes it reads and the bytes it
// produces.
struct Step {
  uint64_t in = 1, out = 1;
};

Step StepOf(const OutputTensor& tensor) {
  if (!tensor.encoding) return {};
  const Encoding& encoding = *tensor.encoding;
  return {*encoding.from->BytesFor(encoding.row_values),
          *encoding.to->BytesFor(encoding.row_values)};
}

uint64_t RowsPerPiece(const Encoding& encoding) {
  const RowRoom room = encoding.reader->Room();
  const uint64_t most = room.scattered ? kScatteredBytes : kPieceBytes;
  const uint64_t row = room.per_row + encoding.row_values * sizeof(float);
  return room.fixed < most ? std::max<uint64_t>(1, (most - room.fixed) / row) : 1;
}

// Returns the concatenated bytes of the views. They are copied to `scratch` unless they are a
// single view.
ByteView Together(const std::vector<ByteView>& views, std::vector<std::byte>& scratch) {
  if (views.empty()) return {};
  if (views.size() == 1) return views[0];
  scratch.clear();
  for (const ByteView view : views) scratch.insert(scratch.end(), view.begin(), view.end());
  return scratch;
}

// Blocks follow each other in a row, so executors rely on no more than what each of them has.
bool IsAligned(ByteView bytes, const quant::Format& format) {
  return reinterpret_cast<uintptr_t>(bytes.data()) % std::gcd(kAlignment, format.block_bytes) == 0;
}

// How many of the tensor's ranges are one expert's, if its experts may be apart; otherwise all.
size_t RangesTogether(const OutputTensor& tensor, bool experts_apart) {
  const size_t ranges = tensor.sources.size(), experts = tensor.expert_ids.size();
  const bool matrices = tensor.entry.shape.size() == 3 && experts > 0 && ranges % experts == 0;
  return experts_apart && matrices ? ranges / experts : ranges;
}

void CopyInto(ByteView bytes, std::span<std::byte>& to) {
  if (!bytes.empty()) std::memcpy(to.data(), bytes.data(), bytes.size());
  to = to.subspan(bytes.size());
}

}  // namespace

Status CheckDecodable(const std::string& path, const std::string& tensor,
                      const quant::Format* format) {
  if (format != nullptr && (format->decode != nullptr || HoldsExpertIds(tensor))) return Ok();
  return Error{
      Code::kUnsupported,
      Cat(path, ": tensor ", Quoted(tensor), ": type: expected one that can be decoded, found ",
          format == nullptr ? std::string_view("one that is not known") : format->name),
      "convert the model to another type"};
}

Status TensorPlacer::Place(OutputTensor tensor, const SourceBytes& source, const PlacedPart& part) {
  SHARD_CHECK(CheckDecodable(path_, tensor.entry.name, tensor.entry.format));
  HostTensor placed{tensor.entry.name, tensor.entry.format, tensor.entry.shape, {}};
  ++part.counts.tensors;
  part.counts.bytes += tensor.entry.bytes;
  SHARD_TRY(placed.bytes, FindMapped(tensor, source, part.experts_apart));
  part.counts.mapped += placed.bytes.size();
  if (placed.bytes.empty() && tensor.entry.bytes > 0) {
    const auto buffer = std::make_shared<PageBuffer>(tensor.entry.bytes);
    std::span<std::byte> to = buffer->bytes().first(tensor.entry.bytes);
    placed.bytes = to;
    part.memory.push_back(buffer);
    if (!tensor.literal) {
      AddPieces(tensors_.emplace_back(std::move(tensor)), source, to);
    } else {
      CopyInto(std::as_bytes(std::span(*tensor.literal)), to);
    }
  }
  part.tensors.push_back(std::move(placed));
  return Ok();
}

Status TensorPlacer::Find(const OutputTensor& tensor, const SourceBytes& source,
                          std::span<const SourceRange> ranges, std::vector<ByteView>& views) const {
  for (const SourceRange& range : ranges) {
    auto found = source.Find(range, views);
    if (found) continue;
    return std::move(found).error().Within(Cat(path_, ": tensor ", Quoted(tensor.entry.name)));
  }
  return Ok();
}

// Returns the tensor's bytes if they, or those of each expert, are contiguous and need no change;
// empty if they have to be made.
Result<TensorBytes> TensorPlacer::FindMapped(const OutputTensor& tensor, const SourceBytes& source,
                                             bool experts_apart) const {
  if (tensor.encoding || tensor.literal) return TensorBytes();
  const size_t together = RangesTogether(tensor, experts_apart);
  std::vector<ByteView> places;
  for (size_t first = 0; first < tensor.sources.size(); first += together) {
    std::vector<ByteView> views;
    const auto ranges = std::span(tensor.sources).subspan(first, together);
    SHARD_CHECK(Find(tensor, source, ranges, views));
    if (views.size() != 1 || !IsAligned(views[0], *tensor.entry.format)) return TensorBytes();
    places.push_back(views[0]);
    if (views[0].size() != places[0].size()) return TensorBytes();
  }
  return TensorBytes(std::move(places));
}

void TensorPlacer::AddPieces(const OutputTensor& tensor, const SourceBytes& source,
                             std::span<std::byte> to) {
  if (tensor.encoding && tensor.encoding->reader != nullptr) return AddRows(tensor, source, to);
  const Step step = StepOf(tensor);
  const uint64_t most = std::max<uint64_t>(1, kPieceBytes / step.in) * step.in;
  Piece piece{&tensor, &source, {}, {}, {}};
  uint64_t bytes = 0;
  const auto finish = [&] {
    piece.to = to.first(bytes / step.in * step.out);
    to = to.subspan(piece.to.size());
    if (bytes > 0) pieces_.push_back(piece);
    piece.reads.clear();
    bytes = 0;
  };
  for (SourceRange rest : tensor.sources) {
    while (rest.bytes > 0) {
      const uint64_t taken = std::min(rest.bytes, most - bytes);
      piece.reads.push_back({rest.file, rest.offset, taken});
      rest.offset += taken;
      rest.bytes -= taken;
      bytes += taken;
      if (bytes == most) finish();
    }
  }
  finish();
}

void TensorPlacer::AddRows(const OutputTensor& tensor, const SourceBytes& source,
                           std::span<std::byte> to) {
  const uint64_t row = StepOf(tensor).out, most = RowsPerPiece(*tensor.encoding);
  for (const RowRange& range : tensor.rows) {
    for (uint64_t at = 0; at < range.count; at += most) {
      const RowRange rows = range.Part(at, std::min(range.count - at, most));
      pieces_.push_back({&tensor, &source, {}, rows, to.first(rows.count * row)});
      to = to.subspan(rows.count * row);
    }
  }
}

Status TensorPlacer::Make(const Piece& piece) const {
  SHARD_CHECK(CheckInterrupt());
  const OutputTensor& tensor = *piece.tensor;
  const bool made = tensor.encoding && tensor.encoding->reader != nullptr;
  std::vector<SourceRange> ranges = piece.reads;
  if (made) {
    tensor.encoding->reader->AddReads(piece.rows.first, piece.rows.count, ranges);
  }
  std::vector<ByteView> views;
  SHARD_CHECK(Find(tensor, *piece.source, ranges, views));
  std::span<std::byte> to = piece.to;
  if (!tensor.encoding) {
    for (const ByteView view : views) CopyInto(view, to);
    return Ok();
  }
  std::vector<std::byte> scratch, encoded;
  const ByteView in = Together(views, scratch);
  RowEncoder encoder;
  if (made) {
    SHARD_CHECK(encoder.EncodeRead(tensor, piece.rows, in, encoded));
  } else {
    encoder.Encode(tensor, 0, in, encoded);
  }
  CopyInto(encoded, to);
  return Ok();
}

Status TensorPlacer::Run(const LoadOptions& options) {
  uint64_t total = 0;
  for (const Piece& piece : pieces_) total += piece.to.size();
  ProgressCounter progress(options.progress, total);
  const auto make = [&](size_t i) -> Status {
    SHARD_CHECK(Make(pieces_[i]));
    progress.Add(pieces_[i].to.size());
    return Ok();
  };
  SHARD_CHECK(ParallelFor(pieces_.size(), options.jobs, make));
  return CheckMappedFiles();
}

}  // namespace moepack::runtime
