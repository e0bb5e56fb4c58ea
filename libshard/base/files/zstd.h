// zstd: texts as frames. A file of frames is one text, however many they are: `zstd -dc` prints it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "libshard/base/files/byte_source.h"
#include "libshard/base/result.h"

struct ZSTD_CCtx_s;
struct ZSTD_DCtx_s;

namespace moepack {

inline constexpr std::string_view kZstdSuffix = ".zst";  // of names
// Bytes of a piece. A frame of no more text has its checksum compared before its text is used.
inline constexpr size_t kTextPiece = 1u << 20;

// The most text that a file of `bytes` bytes in frames may hold: so much for each byte, and what
// any file may have. Traces and statistics have 3 bytes of text for one of the file, and only
// tables of zeros have a hundred.
inline constexpr uint64_t kMaxZstdRatio = 256;
inline constexpr uint64_t kZstdFreeText = 256u << 20;
uint64_t MostZstdText(uint64_t bytes);

// Whether a file that starts like this consists of frames.
bool IsZstd(std::string_view head);
Result<bool> IsZstd(const ByteSource& source);

// The text of a source from front to back: that of its frames if it has some, otherwise its bytes.
// For one thread; borrows the source, which may be hostile.
class SourceText {
 public:
  explicit SourceText(const ByteSource& source) : source_(source) {}
  SourceText(const SourceText&) = delete;
  SourceText& operator=(const SourceText&) = delete;
  ~SourceText();

  // The next piece, valid until the next call; empty after the last. kCorrupt for a frame that is
  // cut off, corrupt or not there, and for more text than MostZstdText; kUnsupported for frames
  // that need a larger window than 8 MiB, or a dictionary. The messages name source and byte.
  Result<std::string_view> Next();

 private:
  Status Refill();
  Result<std::string_view> NextOfFrames();
  Error Wrong(size_t code) const;

  const ByteSource& source_;
  std::string input_, output_;
  size_t taken_ = 0;    // of input_
  uint64_t read_ = 0;   // of the source
  uint64_t text_ = 0;   // returned
  uint64_t frame_ = 0;  // where the frame begins
  bool started_ = false, inside_ = false;
  ZSTD_DCtx_s* frames_ = nullptr;  // null for plain bytes
};

// The first `bytes` bytes of the text, or all of a shorter one, with the errors of Next.
Result<std::string> TextHead(const ByteSource& source, size_t bytes);

// Writes frames with checksums. For one thread. The bytes depend on libzstd's version.
class ZstdWriter {
 public:
  ZstdWriter();
  // `text` as one frame.
  std::string Frame(std::string_view text);

 private:
  struct Free {
    void operator()(ZSTD_CCtx_s* context) const;
  };
  std::unique_ptr<ZSTD_CCtx_s, Free> context_;
};

}  // namespace moepack
