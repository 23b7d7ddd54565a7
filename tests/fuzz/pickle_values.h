// Every value that a pickle's root reaches.
#ifndef RECOLLECT_TESTS_FUZZ_PICKLE_VALUES_H_
#define RECOLLECT_TESTS_FUZZ_PICKLE_VALUES_H_

#include <set>
#include <utility>
#include <vector>

#include "convert/pickle.h"

namespace recollect::fuzz {

template <typename Visit>
void VisitValues(const convert::PickleTree& tree, const Visit& visit) {
  std::set<convert::ValueId> seen;
  std::vector<convert::ValueId> left = {tree.root()};
  while (!left.empty()) {
    const convert::ValueId id = left.back();
    left.pop_back();
    if (!seen.insert(id).second) continue;
    const convert::Value& value = tree.at(id);
    visit(value);
    const auto add = [&](const auto* list) {
      if (list != nullptr) left.insert(left.end(), list->items.begin(), list->items.end());
    };
    add(std::get_if<convert::Tuple>(&value));
    add(std::get_if<convert::List>(&value));
    if (const auto* dict = std::get_if<convert::Dict>(&value)) {
      for (const auto& [key, entry] : dict->entries) {
        left.push_back(key);
        left.push_back(entry);
      }
    }
  }
}

}  // namespace recollect::fuzz

#endif  // RECOLLECT_TESTS_FUZZ_PICKLE_VALUES_H_
