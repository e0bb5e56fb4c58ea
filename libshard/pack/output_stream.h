// One output file of a packing run. It takes the file's bytes in order, writes and hashes them, and
// notes finished tensors in the journal.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "libshard/base/digest.h"
#include "libshard/base/files/byte_source.h"
#include "libshard/base/files/cell_digest.h"
#include "libshard/base/files/descriptor.h"
#include "libshard/base/files/file.h"
#include "libshard/base/files/inside_directory.h"
#include "libshard/base/files/journal.h"
#include "libshard/pack/pack.h"
#include "libshard/pack/slice.h"

namespace moepack {

// An OutputStream borrows the layout and the journal, and is used by one thread at a time.
class OutputStream {
 public:
  // Creates (or, to resume, opens) layout.path in `directory`, including missing parent
  // directories.
  static Result<OutputStream> Open(const OutputFile& layout, size_t index,
                                   const InsideDirectory& directory, Journal& journal);
  // A stream that writes nothing and only computes the digests of what Pack would write.
  static OutputStream HashOnly(const OutputFile& layout) {
    return OutputStream(layout, 0, {}, nullptr);
  }
  // Reads back the tensors that the journal lists and keeps them if their digests match. If
  // anything differs, or nothing is listed, the file is restarted with its header. `buffer` is
  // scratch space. With `cell_bytes` each cell is hashed as well, if the file has more than one.
  Status Resume(std::span<std::byte> buffer, uint64_t cell_bytes = 0);
  size_t next_tensor() const { return digests_.size(); }
  uint64_t position() const { return position_; }
  bool resumed() const { return resumed_; }

  // Writes the next bytes. They must not reach past the end of a tensor that padding follows.
  Status Append(std::span<const std::byte> bytes);
  // Appends bytes that were read from `source` at `offset`. If the file system can share blocks
  // between files, they are shared instead of written.
  Status AppendCopy(const ByteSource& source, uint64_t offset, std::span<const std::byte> bytes);

  // Flushes the file to disk and returns its digests. REQUIRES: all bytes were appended.
  Result<FileDigests> Finish();

 private:
  OutputStream(const OutputFile& layout, size_t index, fs::path path, Journal* journal)
      : layout_(layout), index_(index), path_(std::move(path)), journal_(journal) {}
  Result<bool> ReadBack(const std::vector<std::string>& expected, std::span<std::byte> buffer);
  Status StartOver();
  FileDigests Digests();
  // Adds `bytes` to the digests of file and tensors; `note` writes finished tensors to the journal.
  Status Hash(std::span<const std::byte> bytes, bool note);
  Status FinishTensors(bool note);
  Status FinishTensor(bool note);
  Status Pad();
  Status Take(std::span<const std::byte> bytes);
  Status Write(uint64_t position, std::span<const std::byte> bytes);
  Status WriteOrShare(const ByteSource& source, uint64_t offset, std::span<const std::byte> bytes);
  void StartWriteback();

  const OutputFile& layout_;
  size_t index_;
  fs::path path_;
  Journal* journal_;  // null: nothing is written
  Descriptor fd_;
  bool resumed_ = false;
  bool can_share_ = true;      // until the file system has refused once
  uint64_t position_ = 0;      // bytes taken so far
  uint64_t flushed_ = 0;       // bytes whose writeback was started
  uint64_t tensor_bytes_ = 0;  // of the current tensor, so far
  CellSha256 sha256_;
  uint64_t cell_bytes_ = 0;
  Xxh3 xxh3_;
  Xxh3List digests_;  // of finished tensors
};

}  // namespace moepack
