#include "libshard/base/mapped_file.h"

#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <csignal>
#include <mutex>
#include <new>
#include <utility>

#include "libshard/base/file.h"
#include "libshard/base/text.h"

namespace shard {

namespace {

// A mapping, as the handler of SIGBUS sees it. Ranges are never freed, only used again, so that the
// handler may walk their list at any time without a lock.
struct MappedRange {
  std::atomic<uintptr_t> begin{0}, end{0};  // both 0: free
  std::atomic<bool> vanished{false};        // some page was replaced by zeros
  MappedRange* next = nullptr;              // set before the range is published
  // Not for the handler; guarded by RangesMutex.
  fs::path path;
  FileIdentity identity;
};

static_assert(std::atomic<uintptr_t>::is_always_lock_free);
static_assert(std::atomic<MappedRange*>::is_always_lock_free);

constinit std::atomic<MappedRange*> g_ranges{nullptr};
constinit uintptr_t g_page = 0;
struct sigaction g_previous;

std::mutex& RangesMutex() {
  static std::mutex mutex;
  return mutex;
}

// Only atomics without locks, mmap and sigaction from here: this interrupts any code at all.
bool ReplaceByZeros(uintptr_t address) {
  for (MappedRange* range = g_ranges.load(); range != nullptr; range = range->next) {
    const uintptr_t begin = range->begin.load(), end = range->end.load();
    if (address < begin || address >= end) continue;
    range->vanished.store(true);
    // What follows has vanished too; in one piece it stays one mapping, however many pages fault.
    const uintptr_t from = address - address % g_page;
    void* const zeros = mmap(reinterpret_cast<void*>(from), end - from, PROT_READ,
                             MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED | MAP_NORESERVE, -1, 0);
    return zeros != MAP_FAILED;
  }
  return false;
}

void OnBusError(int signal, siginfo_t* info, void* context) {
  const int error = errno;
  if (ReplaceByZeros(reinterpret_cast<uintptr_t>(info->si_addr))) {
    errno = error;
    return;
  }
  if ((g_previous.sa_flags & SA_SIGINFO) != 0)
    return g_previous.sa_sigaction(signal, info, context);
  if (g_previous.sa_handler != SIG_DFL && g_previous.sa_handler != SIG_IGN) {
    return g_previous.sa_handler(signal);
  }
  sigaction(SIGBUS, &g_previous, nullptr);  // the access is repeated and ends the process
}

void InstallHandler() {
  g_page = static_cast<uintptr_t>(sysconf(_SC_PAGESIZE));
  struct sigaction action = {};
  action.sa_sigaction = OnBusError;
  action.sa_flags = SA_SIGINFO | SA_ONSTACK;
  sigaction(SIGBUS, &action, &g_previous);
}

// A free range, or a new one at the front of the list. REQUIRES: RangesMutex is held.
MappedRange* FreeRange() {
  for (MappedRange* range = g_ranges.load(); range != nullptr; range = range->next) {
    if (range->end.load() == 0) return range;
  }
  auto* const range = new MappedRange;
  range->next = g_ranges.load();
  g_ranges.store(range);
  return range;
}

void Register(const MappedFile& file) {
  const std::lock_guard lock(RangesMutex());
  static const bool installed = (InstallHandler(), true);
  static_cast<void>(installed);
  MappedRange* const range = FreeRange();
  range->path = file.path();
  range->identity = file.identity();
  range->vanished = false;
  const auto begin = reinterpret_cast<uintptr_t>(file.bytes().data());
  range->begin = begin;
  range->end = begin + file.bytes().size();
}

void Unregister(const std::byte* data) {
  const std::lock_guard lock(RangesMutex());
  for (MappedRange* range = g_ranges.load(); range != nullptr; range = range->next) {
    if (range->begin.load() != reinterpret_cast<uintptr_t>(data)) continue;
    range->end = 0;
    range->begin = 0;
    return;
  }
}

// Cut in place; a file that was replaced by another keeps its bytes for as long as it is mapped.
bool WasCut(const MappedRange& range) {
  struct stat now;
  if (stat(range.path.c_str(), &now) != 0) return false;
  return now.st_dev == range.identity.device && now.st_ino == range.identity.inode &&
         static_cast<uint64_t>(now.st_size) < range.identity.size;
}

}  // namespace

Status CheckMappedFiles() {
  const std::lock_guard lock(RangesMutex());
  for (MappedRange* range = g_ranges.load(); range != nullptr; range = range->next) {
    if (range->end.load() == 0) continue;
    // The last bytes of a page that is still there become zeros without a signal.
    if (WasCut(*range)) {
      return Error{Code::kCorrupt,
                   Cat(range->path.string(), ": the file was cut while it was read"),
                   "do not write to a model while it is loaded; copy or download it again"};
    }
    if (range->vanished.load()) {
      return Error{Code::kIo, Cat(range->path.string(), ": a page of the file could not be read"),
                   "the file was cut, or its disk or network fails"};
    }
  }
  return Ok();
}

Result<MappedFile> MappedFile::Open(const fs::path& path) {
  SHARD_TRY(const InputFile opened, InputFile::Open(path));
  MappedFile file;
  file.path_ = path;
  file.identity_ = opened.identity();
  if (opened.size() == 0) return file;
  void* const address =
      mmap(nullptr, opened.size(), PROT_READ, MAP_PRIVATE, opened.descriptor(), 0);
  if (address == MAP_FAILED) {
    if (errno == ENOMEM) throw std::bad_alloc();
    return Error{Code::kIo, Cat(path.string(), ": map: ", ErrnoText(errno))};
  }
  file.data_ = static_cast<const std::byte*>(address);
  file.size_ = opened.size();
  Register(file);
  return file;
}

MappedFile::MappedFile(MappedFile&& other) noexcept
    : path_(std::move(other.path_)),
      data_(std::exchange(other.data_, nullptr)),
      size_(std::exchange(other.size_, 0)),
      identity_(other.identity_) {}

MappedFile& MappedFile::operator=(MappedFile&& other) noexcept {
  std::swap(path_, other.path_);
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
  std::swap(identity_, other.identity_);
  return *this;
}

MappedFile::~MappedFile() {
  if (data_ == nullptr) return;
  Unregister(data_);
  munmap(const_cast<std::byte*>(data_), size_);
}

}  // namespace shard
