// Clones of files (ioctl_ficlone(2)) on file systems that have none, such as that of /dev/shm.
#pragma once

namespace faults {

// Does what FICLONE or FICLONERANGE would do with the file `to`, by copying, and logs it as writes.
// As in a file system with blocks of 4096 bytes, ranges must begin and end where blocks do.
int CopyAsClone(int to, unsigned long request, const void* argument);

}  // namespace faults
