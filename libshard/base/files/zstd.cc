#include "libshard/base/files/zstd.h"

#include <zstd.h>
#include <zstd_errors.h>

#include <algorithm>
#include <new>
#include <span>
#include <utility>

#include "libshard/base/files/lfs_pointer.h"
#include "libshard/base/limits.h"
#include "libshard/base/parallel.h"
#include "libshard/base/text/text.h"

namespace moepack {
namespace {

constexpr std::string_view kZstdMagic = "\x28\xb5\x2f\xfd";
// What RFC 8878 asks of every reader, and the most that zstd uses up to level 19.
constexpr int kZstdWindowLog = 23;
// zstd's own. Numbers hardly get smaller beyond it: level 9 saves 4 % of statistics in four times
// the time.
constexpr int kZstdLevel = 3;

}  // namespace

uint64_t MostZstdText(uint64_t bytes) {
  return kZstdFreeText + kMaxZstdRatio * std::min(bytes, kMaxFileBytes / kMaxZstdRatio / 2);
}

bool IsZstd(std::string_view head) { return head.starts_with(kZstdMagic); }

Result<bool> IsZstd(const ByteSource& source) {
  std::string head(std::min<uint64_t>(source.size(), kZstdMagic.size()), '\0');
  SHARD_CHECK(source.ReadAt(0, std::as_writable_bytes(std::span(head))));
  return IsZstd(head);
}

SourceText::~SourceText() { ZSTD_freeDCtx(frames_); }

Status SourceText::Refill() {
  input_.resize(std::min<uint64_t>(ScanStep(source_), source_.size() - read_));
  taken_ = 0;
  SHARD_CHECK(source_.ReadAt(read_, std::as_writable_bytes(std::span(input_))));
  read_ += input_.size();
  return Ok();
}

Result<std::string_view> SourceText::Next() {
  SHARD_CHECK(CheckInterrupt());
  const bool first = !std::exchange(started_, true);
  if (first) {
    SHARD_CHECK(Refill());
    SHARD_CHECK(CheckNoLfsPointer(source_.name(), input_));
    if (IsZstd(input_)) {
      frames_ = ZSTD_createDCtx();
      if (frames_ == nullptr) throw std::bad_alloc();
      ZSTD_DCtx_setParameter(frames_, ZSTD_d_windowLogMax, kZstdWindowLog);
      output_.resize(kTextPiece);
    }
  }
  if (frames_ != nullptr) return NextOfFrames();
  if (!first) SHARD_CHECK(Refill());
  return std::string_view(input_);
}

// A piece ends where a frame does, or where it is full.
Result<std::string_view> SourceText::NextOfFrames() {
  ZSTD_outBuffer out = {output_.data(), output_.size(), 0};
  while (out.pos < out.size) {
    if (taken_ == input_.size()) SHARD_CHECK(Refill());
    const bool ended = input_.empty();
    if (ended && !inside_) break;
    if (!inside_) frame_ = read_ - (input_.size() - taken_);
    ZSTD_inBuffer in = {input_.data(), input_.size(), taken_};
    const size_t before = out.pos;
    const size_t left = ZSTD_decompressStream(frames_, &out, &in);
    if (ZSTD_isError(left)) return Wrong(left);
    taken_ = in.pos;
    inside_ = left != 0;
    text_ += out.pos - before;
    if (text_ > MostZstdText(source_.size()))
      return Error{Code::kCorrupt,
                   Cat(source_.name(), ": zstd: expected at most ", MostZstdText(source_.size()),
                       " bytes of text in ", source_.size(), " bytes, found more")};
    if (ended && inside_ && out.pos == before)
      return Error{Code::kCorrupt,
                   Cat(source_.name(), ": zstd frame at byte ", frame_,
                       ": expected its end, found that of the file"),
                   "the file was cut off, or something else was appended to it: make it again"};
    if (!inside_ && out.pos > 0) break;
  }
  return std::string_view(output_).substr(0, out.pos);
}

Error SourceText::Wrong(size_t code) const {
  const std::string where = Cat(source_.name(), ": zstd frame at byte ", frame_, ": expected ");
  const char* const corrupt = "the file is corrupt: make it again";
  switch (ZSTD_getErrorCode(code)) {
    case ZSTD_error_memory_allocation:
      throw std::bad_alloc();
    case ZSTD_error_prefix_unknown:
      return {Code::kCorrupt, Cat(where, "its magic, found other bytes"), corrupt};
    case ZSTD_error_checksum_wrong:
      return {Code::kCorrupt, Cat(where, "the checksum of its text, found another"), corrupt};
    case ZSTD_error_frameParameter_windowTooLarge:
      return {
          Code::kUnsupported,
          Cat(where, "a window of at most ", 1u << kZstdWindowLog, " bytes, found a larger one"),
          "compress it again without --ultra and --long"};
    case ZSTD_error_dictionary_wrong:
      return {Code::kUnsupported, Cat(where, "no dictionary, found one"),
              "compress it again without a dictionary"};
    default:
      return {Code::kCorrupt,
              Cat(where, "what zstd writes, found corrupt data (", ZSTD_getErrorName(code), ")"),
              corrupt};
  }
}

Result<std::string> TextHead(const ByteSource& source, size_t bytes) {
  std::string head(std::min<uint64_t>(source.size(), bytes), '\0');
  SHARD_CHECK(source.ReadAt(0, std::as_writable_bytes(std::span(head))));
  if (!IsZstd(head)) return head;
  head.clear();
  for (SourceText text(source); head.size() < bytes;) {
    SHARD_TRY(const std::string_view piece, text.Next());
    if (piece.empty()) break;
    head += piece.substr(0, bytes - head.size());
  }
  return head;
}

ZstdWriter::ZstdWriter() : context_(ZSTD_createCCtx()) {
  if (!context_) throw std::bad_alloc();
  ZSTD_CCtx_setParameter(context_.get(), ZSTD_c_compressionLevel, kZstdLevel);
  ZSTD_CCtx_setParameter(context_.get(), ZSTD_c_checksumFlag, 1);
}

void ZstdWriter::Free::operator()(ZSTD_CCtx_s* context) const { ZSTD_freeCCtx(context); }

// Nothing but memory can be missing: the buffer has room for the worst case.
std::string ZstdWriter::Frame(std::string_view text) {
  std::string frame(ZSTD_compressBound(text.size()), '\0');
  const size_t size =
      ZSTD_compress2(context_.get(), frame.data(), frame.size(), text.data(), text.size());
  if (ZSTD_isError(size)) throw std::bad_alloc();
  frame.resize(size);
  return frame;
}

}  // namespace moepack
