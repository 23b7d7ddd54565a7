"""Public reports of faults in neighbouring servers, and what Recollect does in each case: runs the cases against real servers.

    python3 tests/e2e/reports/reports.py                                        prints the table
    python3 tests/e2e/reports/reports.py SOURCE_DIR RECOLLECT_BINARY CHAT_SERVER [CASE ...]

CHAT_SERVER answers conversations from a script (tests/http/chat_server.cc). Another table in docs/results/reports.md than
the printed one is a failure, unless cases are named.
"""
import pathlib
import sys

import cases
from cases import At

PAGE = "docs/results/reports.md"

# By section: (thread, what was reported, what Recollect does, what shows it). A thread is REPOSITORY#NUMBER, with "pull" behind
# it where it is a pull request. What shows it: cases of cases.py, and names of other tests.
REPORTS = {
    "A request ends the server": [
        ("vllm-project/vllm#7283", "an empty prompt ends the engine",
         "400 that names `prompt`, for each way of sending nothing", [cases.empty_prompt]),
        ("vllm-project/vllm#6521", "`echo` with `max_tokens` 0 crashes the server",
         "the prompt and its log probabilities come back", [cases.echo_without_tokens]),
        ("vllm-project/vllm#54195", "a token id outside the vocabulary reaches the device and ends every rank",
         "400 with the id and the vocabulary's size; `stop_token_ids` and `logit_bias` are not built, and refused by name",
         [cases.ids_outside_the_vocabulary]),
        ("ggml-org/llama.cpp#6396", "a body that is no UTF-8 crashes the server", "400",
         [cases.body_in_another_encoding]),
        ("mozilla-ai/llamafile#116", "a colon too many in the JSON aborts the server", "400 with the place",
         [cases.body_that_is_no_json, "HttpTest.WhatIsNoJsonIsToldByItsPlace"]),
        ("ggml-org/llama.cpp#9195", "tokens that are no whole character end the server when its answer becomes JSON",
         "parts of a character become U+FFFD in `text`, and keep their bytes in `logprobs`",
         [cases.bytes_that_are_no_text, "HttpTest.APartOfACharacterIsReplaced"]),
        ("ggml-org/llama.cpp#25283", "a deeply nested schema exhausts the stack",
         "JSON deeper than 64 is 400 with both depths; schemas and grammars are not built", [cases.deep_nesting]),
        ("sgl-project/sglang#28153 pull", "`temperature` NaN ends the server until somebody restarts it",
         "400: NaN is no JSON; what is out of range is 400 with field, value and limits",
         [cases.numbers_that_are_none, "ServerTest.NoNumberIsTooStrangeToBeRefusedByName"]),
        ("ggml-org/whisper.cpp#3864 pull", "a GGUF file of 88 bytes with an extent of 0 divides by it",
         "a tensor of extent 0 is an empty one; a model that lacks numbers is refused with the tensor's name. The reader is a fuzz target",
         ["GgufTest.ReadsUnusualShapesAndOrders", "GgufTest.RefusesExtentsThatOverflow"]),
        ("vllm-project/vllm#5907", "log probabilities of a prompt take memory of prompt times vocabulary, and end the server",
         "they are computed piece by piece; N times the prompt is bounded, and more is 400", [cases.logprobs_of_a_long_prompt]),
    ],
    "A request is taken for another one": [
        ("ollama/ollama#4967", "a conversation that is too long is cut in silence",
         "a prompt that is too long is 400 with both numbers; a chat says in `dropped_messages` how many of its oldest messages had no room",
         [cases.longer_than_a_prompt_may_be, "HttpTest.TheAnswerSaysHowManyMessagesHadNoRoom"]),
        ("vllm-project/vllm#4339", "a field that is not known is dropped in silence", "400 that names it, in messages, too",
         [cases.fields_that_are_not_known]),
        ("ggml-org/llama.cpp#13700", "`max_completion_tokens` is ignored, and answers have no end",
         "it and `max_tokens` are two names for one number; if they disagree, 400",
         [cases.both_names_of_max_tokens, "HttpTest.FieldsOfAChatReachTheEngine"]),
        ("ggml-org/llama.cpp#8367", "a message's `content` may not be a list of parts",
         "parts of text are taken; images are not built, and refused by name", [cases.content_in_parts]),
        ("ollama/ollama#6934", "embeddings are floats where the client asked for base64", "base64 of the same floats",
         [cases.vectors_in_base64]),
        ("ggml-org/llama.cpp#27174", "log probabilities of the prompt are missing, so that every such benchmark scores chance",
         "one for each token of the prompt, and the generated one's; lm_eval is a test (`e2e.http_clients`)",
         [cases.logprobs_of_the_prompt]),
        ("mlc-ai/mlc-llm#1142 pull", "an emoji that is cut between two tokens is streamed as replacement characters",
         "the parts of a character wait for each other", ["TextStreamTest.HoldsBackUnfinishedCharacters",
                                                         "TextStreamTest.TokensOfAByteLevelVocabularyComeOutAsWholeCharacters"]),
        ("huggingface/transformers#29279", "names of control tokens in a user's message become control tokens",
         "they are ordinary text, in messages and in documents", ["ChatTemplateTest.NoMessageCanWriteAControlToken",
                                                                 "TokenizerTest.NamesOfControlSymbolsAreOrdinaryText"]),
    ],
    "Clients, and the end of a server": [
        ("ggml-org/llama.cpp#24496", "the client has gone, and its answer is generated to the end, streamed or not",
         "it ends within a step", [cases.client_gone_while_it_generates]),
        ("antirez/ds4#333", "the client has gone, and its prompt is read for 15 minutes, five times in a row",
         "reading ends within a step", [cases.client_gone_while_the_prompt_is_read]),
        ("antirez/ds4#222", "a stream is silent while a long prompt is read, and the client gives up",
         "a comment line in every 15 s, by the clock; **an answer that is not streamed is silent until its end**",
         ["HttpTest.AStreamIsNeverSilentForLong"]),
        ("vllm-project/vllm#18826", "requests wait in a queue without a bound, until memory ends",
         "one more than the bound is 429 with `Retry-After`", [cases.more_than_there_is_room_for,
                                                              "SchedulingTest.AFullQueueRefusesTheNext"]),
        ("qdrant/qdrant#2569", "too many open files: nobody can connect, and writes fail",
         "connections leave descriptors to the store; with too few it does not start, and says how many it needs",
         ["GateTest.AcceptsAgainOnceThereAreDescriptors"]),
        ("vllm-project/vllm#36666 pull", "SIGTERM cuts off what runs", "it is answered to its end, within `--drain-timeout`",
         [cases.sigterm_while_it_generates, "HttpTest.DrainAnswersWhatRunsAndRefusesWhatComes"]),
        ("vllm-project/vllm#36960", "`/health` is 200 although the GPU computes nothing any more",
         "503 once a device has reported that it is lost; **one that hangs without an error is not noticed**",
         ["DeviceBackendTest.ALostDeviceIsAStatusAndTheEngineStaysUp", "ServiceTest.ALostDeviceTurnsHealthAndNothingElseOff"]),
        ("qdrant/qdrant-client#115", "an upload that is broken off begins again",
         "it goes on at `committed_bytes`, and what is committed is not read again",
         [cases.upload_that_is_broken_off, "HttpResumeTest.WhatWasCommittedStaysAndTheRestIsSent"]),
    ],
    "Who may call": [
        ("vllm-project/vllm#58144", "a second path to the same handler asks for no key",
         "every path of `/openapi.json` but health, the page and that description is 401 without one",
         [cases.every_path_without_a_key, "HttpAccessTest.HealthIsOpenAndNothingElseIs"]),
        ("vllm-project/vllm#23052", "without keys it listens on every address",
         "127.0.0.1 by default; another address without keys is refused at start", [cases.every_address_without_keys]),
        ("nomic-ai/gpt4all#3587 pull", "pages of other sites reach the local server by DNS rebinding",
         "without keys a strange `Host` or `Origin` is 403, no answer may be read by other pages, and `*` needs keys",
         [cases.pages_of_other_sites, "HttpHostsTest.AnotherNameIsRefusedAndNamed"]),
    ],
    "What is kept": [
        ("ggml-org/llama.cpp#26676", "a restored state is reported as restored, and read again from the beginning",
         "a document is mounted after a restart and not read again; answers say in `cached_tokens` what was not read. "
         "**The prompt cache does not outlive the process**", [cases.restarted, "PromptCacheTest.NextTurnReadsOnlyWhatIsNew"]),
        ("LMCache/LMCache#562", "after a restart chunks are on the disk, and the index that finds them is lost",
         "chunks are found by keys that lie beside them; tokens are the same",
         [cases.restarted, "RestartTest.SameTokensWarmColdAndRestarted"]),
        ("LMCache/LMCache#4564", "after a restart the use of the disk is counted from zero",
         "it is read from the store, and quotas count documents of earlier processes",
         [cases.restarted, "QuotaContractTest.DocumentsUnderThePrefixAreCounted"]),
        ("antirez/ds4#805", "states that other weights of the same shape have made are taken",
         "FAILED_PRECONDITION with both fingerprints, which are over the weights", ["ServerE2eTest.AnotherModelRefusesTheDocumentButListsIt"]),
        ("MemTensor/MemOS#2300", "a file of states does not say of which model they are",
         "a document's file does, and another model refuses it", ["TransferTest.AnotherModelsDocumentIsRefused"]),
        ("qdrant/qdrant#3090", "after a forced shutdown the log is corrupt, and nothing starts",
         "it starts, and what was acknowledged is there", ["RocksKillTest.KilledAtRandomMoments",
                                                          "FailingCallsTest.PowerIsLostAtEveryCallInTurn"]),
        ("qdrant/qdrant#2231", "a temporary file that a crash has left keeps it from starting", "such files do no harm",
         [cases.strange_files_in_the_directory, "RocksCrashedTest.WhatACrashLeavesIsOpened"]),
        ("qdrant/qdrant#2953", "one damaged collection keeps all others from loading",
         "a damaged document is DATA_LOSS where it is used, and the rest is served",
         ["RocksDamageTest.DamagedRecordsOfEveryKind", "ServerE2eTest.AFlippedByteIsDataLossNeverTokens"]),
        ("qdrant/qdrant#5983", "a malformed snapshot leaves a part behind, which ends the next start",
         "a damaged file leaves nothing", [cases.damaged_import, "BackupE2eTest.KilledInTheMiddleOfARestore"]),
        ("chroma-core/chroma#5520", "what is deleted stays on the disk", "its space comes back within a minute, by compaction",
         ["RocksStoreTest.DeleteGivesSpaceBackAndLeavesNeighbours"]),
        ("mem0ai/mem0#3928", "deleting the memories of one user deletes those of all",
         "a deletion names one id", [cases.delete_one_of_two]),
        ("mem0ai/mem0#3695", "what was deleted is still found by searches",
         "it is not, also where its id is given to another text; sessions that had mounted it keep it until they end",
         [cases.deleted_and_searched, "DocumentsTest.ADeletedDocumentStaysWithItsSessions"]),
        ("MemPalace/mempalace#1818", "two processes write one directory, and corrupt it",
         "the second one does not start, and names the directory", [cases.second_server, "RocksStoreTest.DirectoryInUseByAnotherProcess"]),
    ],
    "Memory, and the same answer each time": [
        ("ikawrakow/ik_llama.cpp#2320", "a cache keeps one entry, even one above its limit, and grows to 222 GB",
         "an entry above the limit is not kept", [cases.entry_above_the_limit, "PromptCacheTest.KeepsNoMoreThanItsBytes",
                                               "ByteBudgetCacheTest.TooLargeStaysWithTheCaller"]),
        ("ollama/ollama#18265 pull", "8 GiB of host memory are a cache that nobody asked for and nothing shows",
         "each cache has a flag, a default on the operations page and two numbers in `/v1/stats`", [cases.budgets_are_told]),
        ("vllm-project/vllm#31210", "with states in host memory and many requests answers are wrong now and then",
         "the tokens are those that each request gets alone, from any tier", [cases.many_at_once,
                                                                              "SchedulingTest.ManyClientsAtOnce"]),
    ],
}


def rows():
    return [row for section in REPORTS.values() for row in section]


def link(thread):
    name, kind = (thread.split() + ["issues"])[:2]
    repository, number = name.split("#")
    return f"[{name}](https://github.com/{repository}/{kind}/{number})"


def table():
    lines, number = [], 0
    for section, reports in REPORTS.items():
        lines += [f"## {section}", "", "| | report | what happened | Recollect | shown by |", "|---|---|---|---|---|"]
        for thread, said, here, shown in reports:
            number += 1
            names = ", ".join(f"`{name if isinstance(name, str) else name.__name__}`" for name in shown)
            lines.append(f"| {number} | {link(thread)} | {said} | {here} | {names} |")
        lines.append("")
    return "\n".join(lines)


def cases_of(names):
    """Each once, in the order of the table."""
    found = {}
    for thread, *_, shown in rows():
        for case in shown:
            if callable(case) and (not names or case.__name__ in names):
                found.setdefault(case, thread)
    unknown = set(names) - {case.__name__ for case in found}
    return found if not unknown else sys.exit(f"no such case: {', '.join(sorted(unknown))}")


def run(at, found):
    failed = []
    for case, thread in found.items():
        try:
            case(at)
            assert at.server.works(), "the server does not answer any more"
            print(f"{case.__name__}: as {thread} wants it", flush=True)
        except Exception as error:  # whatever is wrong with one, the others are run
            failed.append(case.__name__)
            print(f"{case.__name__}: {thread}: {type(error).__name__}: {error}", flush=True)
            if not at.server.alive():
                at.server.start()
    return failed


def main():
    if len(sys.argv) == 1:
        return print(table())
    source, *programs = (pathlib.Path(path).resolve() for path in sys.argv[1:4])
    only = sys.argv[4:]
    found = cases_of(only)
    at = At(source, *programs)
    with at.cleanup:
        failed = run(at, found)
        at.server.stop()
        at.chat.stop()
    if not only:
        page = (source / PAGE).read_text()
        if page[page.index("## "):].strip() != table().strip():
            failed.append(f"{PAGE} has another table")
    if failed:
        sys.exit("failed: " + ", ".join(failed))


if __name__ == "__main__":
    main()
