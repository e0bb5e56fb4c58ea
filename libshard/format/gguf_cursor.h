// Bounded reads from the header of a GGUF file. Its errors say where in the file they occurred.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "libshard/base/bytes.h"
#include "libshard/base/result.h"
#include "libshard/base/text/text.h"

namespace moepack {

// A cursor over the header in `file`, the first bytes of a file of `file_size`. Reading outside it
// is an error that names the place set by At; needed() tells whether more of the file would have
// helped. Messages are only built when there is an error.
class GgufCursor {
 public:
  GgufCursor(const std::string& path, std::span<const std::byte> file, uint64_t file_size)
      : path_(path), file_(file), file_size_(file_size) {}

  uint64_t position() const { return position_; }
  uint64_t left() const { return file_size_ - position_; }
  // The number of bytes of the file that are needed to read on; 0 if there were enough.
  uint64_t needed() const { return needed_; }
  uint64_t file_size() const { return file_size_; }
  // Sets the place for errors, which then begin with 'key "a" at byte 24'. `name` is borrowed.
  void At(const char* kind, std::string_view name, uint64_t at) {
    place_ = {.kind = kind, .name = name, .at = at};
  }
  // The same for a key or tensor without a name yet: "key number 3 at byte 24".
  void At(const char* kind, uint64_t number) {
    place_ = {.kind = kind, .name = {}, .number = number, .at = position_};
  }

  Error Corrupt(const std::string& text, const std::string& hint = "") const {
    return {Code::kCorrupt, Place() + text, hint};
  }
  Error Unsupported(const std::string& text, const std::string& hint) const {
    return {Code::kUnsupported, Place() + text, hint};
  }

  Result<std::span<const std::byte>> Take(const char* what, uint64_t bytes) {
    if (bytes > left()) {
      return Corrupt(
          Cat(what, ": expected ", bytes, " bytes, found ", left(), " up to the end of the file"),
          "the file is cut short or damaged: download or copy it again");
    }
    if (bytes > file_.size() - position_) {
      needed_ = position_ + bytes;
      return Corrupt(Cat(what, ": expected in the first ", file_.size(), " bytes, found behind"));
    }
    const auto out = file_.subspan(position_, bytes);
    position_ += bytes;
    return out;
  }
  template <class T>
  Result<T> Number(const char* what) {
    SHARD_TRY(const auto bytes, Take(what, sizeof(T)));
    return LoadLe<T>(bytes);
  }
  // Reads a string. The text is borrowed from the file.
  Result<std::string_view> String(const char* what, uint64_t limit) {
    SHARD_TRY(const uint64_t length, Number<uint64_t>(what));
    if (length > limit) {
      return Corrupt(Cat(what, ": expected at most ", limit, " bytes, found ", length));
    }
    SHARD_TRY(const auto bytes, Take(what, length));
    return std::string_view(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  }
  std::string Since(uint64_t start) const {
    const auto bytes = file_.subspan(start, position_ - start);
    return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
  }

 private:
  struct PlaceInFile {
    const char* kind = nullptr;  // null: the start of the file
    std::string_view name = {};
    uint64_t number = 0, at = 0;
  };

  std::string Place() const {
    if (place_.kind == nullptr) return path_ + ": ";
    const std::string name =
        place_.name.empty() ? Cat("number ", place_.number) : Quoted(place_.name);
    return Cat(path_, ": ", place_.kind, " ", name, " at byte ", place_.at, ": ");
  }

  const std::string& path_;
  std::span<const std::byte> file_;
  uint64_t file_size_ = 0, position_ = 0, needed_ = 0;
  PlaceInFile place_;
};

}  // namespace moepack
