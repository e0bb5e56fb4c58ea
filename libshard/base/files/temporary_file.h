// Files that are written under a temporary name before they get their own.
#pragma once

#include <sys/types.h>

#include <string>
#include <string_view>

#include "libshard/base/files/descriptor.h"
#include "libshard/base/result.h"

namespace moepack {

struct TemporaryFile {
  Descriptor fd;     // open for writing
  std::string name;  // `<name>.tmp-<pid>`, with a digit more for each file of that name in use
};

// Makes `<name>.tmp-<pid>` in the open directory `directory`, or relative to the current one with
// AT_FDCWD. `shown` is the path for messages. It has `mode`, less the umask, from the start.
//
// Removes what killed runs left of the same `name`, by this rule: whoever writes such a file holds
// its lock (flock) until it has its own name or is removed, and the system releases the lock of a
// process that ends. So a file whose lock can be taken is nobody's and is removed, whatever number
// its name has; numbers of processes are used again, and mean nothing on another machine. It stays
// if its lock is held, if it is no regular file or belongs to a user who does not share it, and
// where the file system has no locks. Locks that hold on one machine only (Lustre with
// `localflock`) do not show what another machine is writing.
Result<TemporaryFile> MakeTemporaryFile(int directory, const std::string& name,
                                        const std::filesystem::path& shown, mode_t mode = 0666);

// "model.gguf.tmp-123" -> "model.gguf": the file that such a file was about to replace; "" for
// other names.
std::string_view TemporaryOf(std::string_view name);

}  // namespace moepack
