// A file over HTTP as a source of bytes.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <string>

#include "libshard/base/files/byte_source.h"
#include "libshard/remote/first_range.h"
#include "libshard/remote/head_cache.h"
#include "libshard/remote/range_cache.h"

namespace moepack::remote {

// What the files of one tree share.
struct Transport {
  HttpClientPtr client;
  std::shared_ptr<HeadCache> heads;
  std::shared_ptr<RangeCache> cache;  // null for none
};
Transport MakeTransport(HttpClientPtr client, std::shared_ptr<RangeCache> cache = nullptr);

// What is known about a file before it is opened.
struct FilePlace {
  std::string name;  // its name in messages, without secrets
  Locate locate;
  std::optional<uint64_t> size = std::nullopt;  // from a listing
  std::string identity = {};                    // "" for one made from size and validator
  std::string commit = {}, sha256 = {};         // as in Origin
  Validator listed = {};                        // empty if the listing has none
  // Where the content comes from, without secrets and, if there is an identity, without what may
  // change while the content stays the same, such as a commit. "" for `name`.
  std::string cached_as = {};
};

class HttpSource final : public ByteSource {
 public:
  // Makes one request, which also fetches the beginning of the file: as much as the header of most
  // files of this name takes. No request if a listing identifies the content and the cache has its
  // beginning; a request for one byte if the cache may have it. kCorrupt if the size is not the
  // known one.
  static Result<ByteSourcePtr> Open(const Transport& transport, FilePlace place);

  const std::string& name() const override { return file_.name; }
  uint64_t size() const override { return file_.size; }
  const std::string& identity() const override { return identity_; }
  bool far() const override { return true; }
  std::optional<Origin> origin() const override;
  // Errors include those of ReadRange.
  Status ReadAt(uint64_t offset, std::span<std::byte> out) const override;
  // Makes one request for one byte, unless the file is empty, was read whole, or the server was
  // never asked for it.
  Status CheckUnchanged() const override;

 private:
  HttpSource(const Transport& transport, FilePlace place, RemoteFile file, bool known);
  static std::shared_ptr<const HttpSource> OpenCached(const Transport& transport,
                                                      const FilePlace& place);
  uint64_t HeadSize() const;
  Status TakeHead(std::vector<std::byte> head) const;
  Result<RemoteFile> Known() const;
  // From the cache as far as possible, the rest from the server.
  Status Fetch(uint64_t offset, std::span<std::byte> out) const;
  Status Download(uint64_t offset, std::span<std::byte> out) const;
  Status ReadSmall(uint64_t offset, std::span<std::byte> out) const;
  void KeepHead(const HeadBytes& head, std::span<const std::byte> more) const;

  Transport transport_;
  FilePlace place_;
  // The validator is known once the server has answered or if a listing had it. Until then
  // everything came from the cache.
  struct Answer {
    std::mutex mutex;
    bool known = false;
    Validator validator;
  };
  std::unique_ptr<Answer> answer_;
  RemoteFile file_;  // without the validator
  std::string identity_;
  std::unique_ptr<CachedFile> cached_;  // null for none
  uint64_t key_;                        // in the cache of heads
  HeadBytes whole_;                     // from a server that may not support ranges; otherwise null
  // Readers that proceed in small steps get their bytes from a window.
  struct Window {
    std::mutex mutex;
    uint64_t offset = 0, next = 0;  // `next`: where the last small read ended
    uint64_t run = 0;               // bytes of consecutive small reads
    std::vector<std::byte> bytes;
  };
  std::unique_ptr<Window> window_;
};

}  // namespace moepack::remote
