// A vector for many megabytes of numbers that are written once and then read at random: it leaves
// new numbers as they are instead of writing zeros first, so that several threads can fill them,
// and asks the system for huge pages, which cost less to get and to look up.
//
//   LargeVector<Bf16> keys(count);  // holds anything until it is written
#pragma once

#include <sys/mman.h>

#include <cstddef>
#include <memory>
#include <new>
#include <type_traits>
#include <utility>
#include <vector>

namespace recollect {

template <typename T>
struct LargeAllocator {
  static_assert(std::is_trivially_copyable_v<T> && std::is_trivially_destructible_v<T>);
  using value_type = T;
  static constexpr size_t kHugePage = size_t{2} << 20;
  // The size from which huge pages are used; below it, the unused part of the last one would waste
  // much.
  static constexpr size_t kLarge = 8 * kHugePage;

  LargeAllocator() = default;
  template <typename U>
  LargeAllocator(const LargeAllocator<U>&) {}  // NOLINT(google-explicit-constructor)

  T* allocate(size_t count) {
    if (count > static_cast<size_t>(-1) / sizeof(T)) throw std::bad_array_new_length();
    const size_t bytes = count * sizeof(T);
    if (bytes < kLarge) return static_cast<T*>(::operator new(bytes));
    void* const memory = ::operator new (bytes, std::align_val_t{kHugePage});
    madvise(memory, bytes, MADV_HUGEPAGE);  // a system without them goes on with small ones
    return static_cast<T*>(memory);
  }
  void deallocate(T* memory, size_t count) {
    if (count * sizeof(T) < kLarge) return ::operator delete(memory);
    ::operator delete (memory, std::align_val_t{kHugePage});
  }
  // Leaves the elements that resize adds uninitialised.
  template <typename U>
  void construct(U*) {}
  template <typename U, typename... Arguments>
  void construct(U* at, Arguments&&... arguments) {
    ::new (static_cast<void*>(at)) U(std::forward<Arguments>(arguments)...);
  }
  friend bool operator==(const LargeAllocator&, const LargeAllocator&) { return true; }
};

template <typename T>
class LargeVector : public std::vector<T, LargeAllocator<T>> {
 public:
  using std::vector<T, LargeAllocator<T>>::vector;
  LargeVector() = default;
  LargeVector(const std::vector<T>& from)  // NOLINT(google-explicit-constructor): a copy
      : std::vector<T, LargeAllocator<T>>(from.begin(), from.end()) {}
};

}  // namespace recollect
