// The pickle reader on pickles made by hand: what it reads, and that everything else is refused
// with the opcode or global and its offset.
#include "convert/pickle.h"

#include <unistd.h>

#include <cstdio>
#include <random>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/convert/convert_testing.h"

namespace recollect::convert {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

void ExpectRefused(const std::string& pickle, const std::string& fragment,
                   absl::StatusCode code = absl::StatusCode::kInvalidArgument) {
  const auto tree = PickleTree::Parse(pickle);
  EXPECT_EQ(tree.status().code(), code) << tree.status();
  EXPECT_THAT(std::string(tree.status().message()),
              AllOf(HasSubstr("pickle byte "), HasSubstr(fragment)));
}

const std::string kOrderedDict = PickleGlobal("collections", "OrderedDict");

TEST(PickleTest, ReadsPlainValues) {
  const std::string pickle = "\x80\x02}(" + PickleText("list") + "](K\x05M\x01\x02" +
                             PickleInt(-3) + PickleInt(int64_t{1} << 40) + "\x8a\x01\xfe\x8a" +
                             std::string("\0", 1) + "e" + PickleText("float") + "G?\xe0" +
                             std::string(6, '\0') + PickleText("none") + "N" + PickleText("yes") +
                             "\x88" + PickleText("pair") + "K\x01K\x02\x86u.";
  const auto tree = PickleTree::Parse(pickle);
  ASSERT_TRUE(tree.ok()) << tree.status();
  std::vector<int64_t> numbers;
  for (const ValueId id : std::get<List>(*tree->Find(tree->root(), "list")).items)
    numbers.push_back(std::get<int64_t>(tree->at(id)));
  EXPECT_THAT(numbers, ElementsAre(5, 513, -3, int64_t{1} << 40, -2, 0));
  EXPECT_EQ(std::get<double>(*tree->Find(tree->root(), "float")), 0.5);
  EXPECT_TRUE(std::holds_alternative<None>(*tree->Find(tree->root(), "none")));
  EXPECT_EQ(std::get<bool>(*tree->Find(tree->root(), "yes")), true);
  EXPECT_EQ(std::get<Tuple>(*tree->Find(tree->root(), "pair")).items.size(), 2u);
  EXPECT_EQ(tree->Find(tree->root(), "other"), nullptr);
}

TEST(PickleTest, ReadsDictClassesAsDicts) {
  const std::string easy = PickleGlobal("easydict", "EasyDict") + ")\x81" + PickleText("d") +
                           "K\x07s}" + PickleText("d") + "K\x07sb.";
  const auto tree = PickleTree::Parse(easy);
  ASSERT_TRUE(tree.ok()) << tree.status();
  EXPECT_EQ(std::get<int64_t>(*tree->Find(tree->root(), "d")), 7);
  // Protocol 4: frames, short texts, STACK_GLOBAL, MEMOIZE; a later entry of a key counts.
  const std::string later = std::string("\x80\x04\x95\0\0\0\0\0\0\0\0", 11) +
                            "\x8c\x0b"
                            "collections\x8c\x0bOrderedDict\x93\x94)R(\x8c\x01"
                            "aK\x01\x8c\x01"
                            "aK\x02u.";
  const auto four = PickleTree::Parse(later);
  ASSERT_TRUE(four.ok()) << four.status();
  EXPECT_EQ(std::get<int64_t>(*four->Find(four->root(), "a")), 2);
}

TEST(PickleTest, ReadsTensors) {
  const auto tree =
      PickleTree::Parse(PickleTensor({"w", {2, 3}, {}, "", "HalfStorage", {}}, "k") + ".");
  ASSERT_TRUE(tree.ok()) << tree.status();
  const auto& tensor = std::get<TensorRef>(tree->at(tree->root()));
  EXPECT_THAT(tensor.shape, ElementsAre(2, 3));
  EXPECT_THAT(tensor.strides, ElementsAre(3, 1));
  EXPECT_EQ(tensor.storage.key, "k");
  EXPECT_EQ(tensor.storage.type, ItemType::kF16);
  EXPECT_EQ(tensor.storage.items, 6);
  EXPECT_TRUE(tensor.contiguous());
}

// Every usual way to make a pickle run code. The marker file is what each of them would create.
TEST(PickleTest, RefusesCodeAndRunsNothing) {
  const std::string marker = ::testing::TempDir() + "/pickle_was_here";
  std::remove(marker.c_str());
  const std::string command = "touch " + marker;
  const std::string call = "(" + PickleText(command) + "tR.";
  ExpectRefused(PickleGlobal("os", "system") + call, "pickle byte 0: global os.system");
  ExpectRefused("\x80\x02}" + PickleText("task") + PickleGlobal("posix", "system") + call,
                "pickle byte 12: global posix.system");
  ExpectRefused(PickleGlobal("builtins", "eval") + call, "global builtins.eval");
  ExpectRefused(PickleGlobal("builtins", "getattr") + call, "global builtins.getattr");
  ExpectRefused(PickleGlobal("subprocess", "Popen") + call, "global subprocess.Popen");
  ExpectRefused(PickleGlobal("torch", "load") + call, "global torch.load");
  ExpectRefused(PickleGlobal("torch._utils", "_rebuild_tensor_v2.__globals__") + call,
                "__globals__");
  ExpectRefused(PickleGlobal("collections", "OrderedDict.__reduce__") + call, "__reduce__");
  ExpectRefused("\x8c\x02os\x8c\x06system\x93" + call, "global os.system");
  ExpectRefused("(S'" + command + "'\nios\nsystem\n.", "opcode 0x53");  // STRING, INST
  ExpectRefused("(ios\nsystem\n.", "opcode 0x69");                      // INST
  ExpectRefused("(cos\nsystem\no.", "global os.system");                // OBJ
  ExpectRefused("\x82\x01.", "opcode 0x82");                            // EXT1
  ExpectRefused("\x92.", "opcode 0x92");                                // NEWOBJ_EX
  ExpectRefused("P1\n.", "opcode 0x50");                                // PERSID
  ExpectRefused(PickleText("system") + call, "REDUCE of text");
  ExpectRefused(PickleGlobal("torch", "FloatStorage") + call, "REDUCE of torch.FloatStorage");
  ExpectRefused(kOrderedDict + call, "REDUCE of collections.OrderedDict with arguments");
  ExpectRefused(PickleGlobal("torch._utils", "_rebuild_tensor_v2") + ")\x81.",
                "NEWOBJ of torch._utils");
  ExpectRefused(kOrderedDict + "}b.", "cannot add to a class");  // BUILD on the class itself
  ExpectRefused("c" + std::string(300, 'x') + "\n\xff\x01\n.", "global xxxx");
  EXPECT_NE(access(marker.c_str(), F_OK), 0);
}

TEST(PickleTest, RefusesMisuseOfStackAndMemo) {
  ExpectRefused(".", "the stack has too few values");
  ExpectRefused("(.", "the stack has too few values");
  ExpectRefused("NN.", "STOP with values left");
  ExpectRefused("N.N", "1 bytes after STOP");
  ExpectRefused("t.", "no mark on the stack");
  ExpectRefused("K\x01\x86.", "the stack has too few values");
  ExpectRefused("(K\x01\x86.", "the stack has too few values");
  ExpectRefused(
      "](K\x01"
      "a.",
      "the stack has too few values");
  ExpectRefused("Na.", "the stack has too few values");
  ExpectRefused("NNa.", "cannot add to None");
  ExpectRefused("](NNu.", "cannot add to a list");
  ExpectRefused("}(Nu.", "a key without a value");
  ExpectRefused("}]Ns.", "a list as a key");
  ExpectRefused("h\x05.", "pickle byte 0: memo 5 was never set");
  ExpectRefused("q\x01.", "nothing to put into the memo");
  ExpectRefused("}Nb.", "BUILD with None");
  ExpectRefused("\x80\x06N.", "protocol 6");
  ExpectRefused("\x8a\x09" + std::string(9, '\1') + ".", "an int of 9 bytes");
  ExpectRefused("X\x01" + std::string(3, '\0') + "\xff.", "not valid UTF-8");
  ExpectRefused("NN\x93.", "STACK_GLOBAL: expected two texts");
  // A list inside itself is legal, and harmless as long as nothing walks it without end.
  EXPECT_TRUE(PickleTree::Parse("]q\x01h\x01"
                                "a.")
                  .ok());
}

TEST(PickleTest, RefusesTensorsThatLieElsewhere) {
  const auto rebuild = [](const std::string& storage, const std::string& rest) {
    return PickleGlobal("torch._utils", "_rebuild_tensor_v2") + "(" + storage + rest + "tR.";
  };
  const auto storage = [](const std::string& items) {
    return "(" + PickleText("storage") + PickleGlobal("torch", "FloatStorage") + PickleText("0") +
           PickleText("cpu") + items + "tQ";
  };
  const std::string tail = "\x89" + kOrderedDict + ")R";
  const std::string six = storage(PickleInt(6));
  ExpectRefused(rebuild(six, "K\x01" + PickleTuple({2, 3}) + PickleTuple({3, 1}) + tail),
                "shape [2, 3] with strides [3, 1] at item 1 leaves its storage of 6 items");
  const std::string zero("K\0", 2);
  ExpectRefused(rebuild(six, zero + PickleTuple({2, 3}) + PickleTuple({4, 1}) + tail), "leaves");
  ExpectRefused(
      rebuild(six, zero + PickleTuple({int64_t{1} << 62, 8}) + PickleTuple({0, 0}) + tail),
      "leaves");
  ExpectRefused(rebuild(six, zero + PickleTuple({-1}) + PickleTuple({1}) + tail),
                "shape and strides");
  ExpectRefused(rebuild(six, zero + PickleTuple({2}) + PickleTuple({}) + tail),
                "shape and strides");
  ExpectRefused(rebuild(six, zero + PickleTuple(std::vector<int64_t>(9, 1)) +
                                 PickleTuple(std::vector<int64_t>(9, 1)) + tail),
                "shape and strides");
  ExpectRefused(rebuild(six, PickleInt(-1) + PickleTuple({2}) + PickleTuple({1}) + tail),
                "the offset");
  ExpectRefused(rebuild("N", zero + PickleTuple({2}) + PickleTuple({1}) + tail), "no storage");
  ExpectRefused(rebuild(six, zero), "6 or 7 arguments");
  ExpectRefused(rebuild(six, zero + PickleTuple({2}) + PickleTuple({1}) + "NN"), "requires_grad");
  ExpectRefused(rebuild(six, zero + PickleTuple({2}) + PickleTuple({1}) + "\x89N"), "no hooks");
  ExpectRefused(storage(PickleInt(-1)) + ".", "the number of items");
  ExpectRefused(storage(PickleInt(int64_t{1} << 62)) + ".", "the number of items");
  ExpectRefused("(" + PickleText("storage") + PickleGlobal("torch", "FloatStorage") +
                    PickleText("\x1b[2J") + PickleText("cpu") + "K\x01tQ.",
                "the key is no ordinary name");
  ExpectRefused("NQ.", "persistent id: expected a tuple of 5");
  ExpectRefused("(" + PickleText("module") + "NNNNtQ.", "expected \"storage\" first");
  ExpectRefused("(" + PickleText("storage") + kOrderedDict + "NNNtQ.", "expected a storage class");
}

TEST(PickleTest, RefusesWhatIsTooLarge) {
  const auto huge = PickleTree::Parse(std::string((16 << 20) + 1, 'N'));
  EXPECT_EQ(huge.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(huge.status().message()), HasSubstr("a pickle of 16777217 bytes"));
  ExpectRefused(std::string(1'000'001, 'N') + ".", "more than 1000000 values");
  ExpectRefused(std::string(1'000'001, '(') + ".", "the stack is too deep");
  ExpectRefused(
      "X\xff\xff\xff\xff"
      "abc",
      "ends early: 4294967295 bytes expected, 3 left", absl::StatusCode::kDataLoss);
}

TEST(PickleTest, EveryTruncationIsDataLoss) {
  const std::string whole =
      PickleCheckpoint(TinyRatPlus(), PickleGlobal("easydict", "EasyDict") + ")\x81");
  ASSERT_TRUE(PickleTree::Parse(whole).ok());
  for (size_t size = 0; size < whole.size(); ++size) {
    EXPECT_EQ(PickleTree::Parse(whole.substr(0, size)).status().code(), absl::StatusCode::kDataLoss)
        << size;
  }
}

// Any outcome but a crash or a hang.
TEST(PickleTest, SurvivesChangedBytes) {
  const std::string whole =
      PickleCheckpoint(TinyRatPlus(), PickleGlobal("easydict", "EasyDict") + ")\x81");
  std::mt19937 random(7);
  int read = 0;
  for (size_t at = 0; at < whole.size(); ++at) {
    for (int change = 0; change < 24; ++change) {
      std::string bytes = whole;
      bytes[at] = static_cast<char>(random());
      if (change % 3 == 0) bytes[random() % bytes.size()] = static_cast<char>(random());
      if (change % 4 == 0) bytes.insert(at, 1, static_cast<char>(random()));
      if (PickleTree::Parse(bytes).ok()) ++read;
    }
  }
  EXPECT_GT(read, 0);
}

}  // namespace
}  // namespace recollect::convert
