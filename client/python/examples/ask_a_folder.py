# %% [markdown]
# # Ask a folder of texts
# Ingests every .txt file of a folder, continues a prompt with all of them mounted, and plots where the retrieved chunks lie.
# Runs cell by cell in an editor that knows `# %%`, or as a program:
#
#     pip install './client/python[plot]'
#     python ask_a_folder.py FOLDER "The pass key of Ahab is" --out retrieved.png

# %%
import argparse
import pathlib

import matplotlib.pyplot as plt
import recollect

parser = argparse.ArgumentParser(description="Ingests the .txt files of a folder, asks, and plots what was retrieved.")
parser.add_argument("folder", type=pathlib.Path)
parser.add_argument("prompt")
parser.add_argument("--server", default="localhost:50051")
parser.add_argument("--out", default="retrieved.png", help="the plot")
arguments = parser.parse_args()

client = recollect.Client(arguments.server)

# %% [markdown]
# ## Ingest
# A document that is there already is not read again.

# %%
documents = [client.ingest(path) for path in sorted(arguments.folder.glob("*.txt"))]
for document in documents:
    print(f"{document.id}: {document.tokens} tokens, {document.chunks} chunks")

# %% [markdown]
# ## Ask

# %%
mounts = [document.id for document in documents]
result = client.generate(arguments.prompt, mounts=mounts, max_tokens=24, retrievals=True).result()
print(arguments.prompt + result.text)

# %% [markdown]
# ## What was retrieved
# One row a document, drawn along its length; a line for each retrieved chunk, thicker the more weight it had; a colour for
# each group of the model's layers.

# %%
figure, axes = plt.subplots(figsize=(9, 1 + 0.5 * len(documents)), layout="constrained")
row = {document.id: i for i, document in enumerate(documents)}
for document in documents:
    axes.barh(row[document.id], document.bytes, height=0.6, color="0.92", edgecolor="0.7")
for retrieval in result.retrievals:
    for hit in retrieval.hits:
        if hit.document in row and hit.weight > 0:
            y = row[hit.document]
            axes.vlines((hit.text_begin + hit.text_end) / 2, y - 0.3, y + 0.3,
                        color=f"C{retrieval.group}", lw=0.5 + 3 * hit.weight, alpha=0.7)
axes.set_yticks(range(len(documents)), mounts)
axes.set_xlabel("byte of the text")
axes.set_title(arguments.prompt + result.text, fontsize=9, parse_math=False)
figure.savefig(arguments.out, dpi=120)
print(f"wrote {arguments.out}")
