// The first request for a file: how long it is, what tells its content from another, and its
// beginning.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "libshard/base/result.h"
#include "libshard/remote/range_read.h"

namespace moepack::remote {

struct FirstRange {
  RemoteFile file;
  std::vector<std::byte> head;  // its first bytes
  // `head` is all of the file, from a server that may know no ranges.
  bool whole = false;
};
// Asks for the first `wanted` bytes; a file that is shorter is all of the answer, also where the
// server knows no ranges. A longer one is read whole from such a server when
// HttpSettings::whole_files has room for it. Errors are those of HttpClient::Perform and
// StatusError; kIo for an answer that is no such range: ranges ignored, compressed, a web page, of
// a file whose size nobody states; kCorrupt for one that contradicts itself.
Result<FirstRange> ReadFirstRange(HttpClient& client, const std::string& name, const Locate& locate,
                                  uint64_t wanted);

}  // namespace moepack::remote
