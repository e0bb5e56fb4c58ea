// The first request for a file: how long it is, what identifies its content, and its beginning.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "libshard/base/result.h"
#include "libshard/remote/http/range_read.h"

namespace moepack::remote {

struct FirstRange {
  RemoteFile file;
  std::vector<std::byte> head;  // its first bytes
  // `head` is the whole file, from a server that may not support ranges.
  bool whole = false;
};
// Requests the first `wanted` bytes; a shorter file is returned whole, even if the server does not
// support ranges. From such a server a longer file is read whole if HttpSettings::whole_files has
// room for it. Errors are those of HttpClient::Perform and StatusError; kIo for an answer that is
// not such a range: ranges ignored, compressed, a web page, or a file of unknown size; kCorrupt for
// one that contradicts itself. A broken transfer is resumed where it ended.
Result<FirstRange> ReadFirstRange(HttpClient& client, const std::string& name, const Locate& locate,
                                  uint64_t wanted);

}  // namespace moepack::remote
