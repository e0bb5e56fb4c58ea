#include "tests/faults/shim/clones.h"

#include <linux/fs.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>

#include "tests/faults/shim/decide.h"

namespace faults {
namespace {

constexpr uint64_t kBlockBytes = 4096, kPieceBytes = 1u << 16;

file_clone_range RangeOf(unsigned long request, const void* argument) {
  if (request == FICLONERANGE) return *static_cast<const file_clone_range*>(argument);
  file_clone_range whole{};
  whole.src_fd = reinterpret_cast<intptr_t>(argument);
  return whole;
}

}  // namespace

// Directly to the kernel: our own calls are not counted.
int CopyAsClone(int to, unsigned long request, const void* argument) {
  const file_clone_range range = RangeOf(request, argument);
  if ((range.src_offset | range.src_length | range.dest_offset) % kBlockBytes != 0) {
    errno = EINVAL;
    return -1;
  }
  const uint64_t bytes = range.src_length == 0 ? UINT64_MAX : range.src_length;  // 0: to the end
  const LogLock lock;
  const Path path = PathOf(to);
  char piece[kPieceBytes];
  for (uint64_t done = 0; done < bytes;) {
    const uint64_t wanted = std::min(kPieceBytes, bytes - done), at = range.dest_offset + done;
    const long got = syscall(SYS_pread64, range.src_fd, piece, wanted, range.src_offset + done);
    if (got == 0) break;
    const long put = got < 0 ? -1 : syscall(SYS_pwrite64, static_cast<long>(to), piece, got, at);
    if (put <= 0) return -1;
    Log({"write", path.text, "", at, piece, static_cast<size_t>(put)});
    done += static_cast<uint64_t>(put);
  }
  return 0;
}

}  // namespace faults
