# The menu of ctc-align. Praat runs this file when it starts.
# No entry does anything itself: each writes a job and lets the program ctc-align do it.

Add action command: "Sound", 1, "", 0, "", 0, "ctc-align -", "", 0, ""
Add action command: "Sound", 1, "", 0, "", 0, "Align...", "ctc-align -", 1, "align.praat"
Add action command: "Sound", 1, "", 0, "", 0, "Align folder...", "Align...", 1, "align_folder.praat"

Add action command: "LongSound", 1, "", 0, "", 0, "ctc-align -", "", 0, ""
Add action command: "LongSound", 1, "", 0, "", 0, "Align...", "ctc-align -", 1, "align.praat"
Add action command: "LongSound", 1, "", 0, "", 0, "Align folder...", "Align...", 1, "align_folder.praat"

Add action command: "Sound", 1, "TextGrid", 1, "", 0, "ctc-align -", "", 0, ""
Add action command: "Sound", 1, "TextGrid", 1, "", 0, "Align text of TextGrid...", "ctc-align -", 1, "align_textgrid.praat"
Add action command: "Sound", 1, "TextGrid", 1, "", 0, "Realign around my corrections...", "Align text of TextGrid...", 1, "realign.praat"
Add action command: "Sound", 1, "TextGrid", 1, "", 0, "Compare edges with another TextGrid...", "Realign around my corrections...", 1, "compare.praat"
Add action command: "Sound", 1, "TextGrid", 1, "", 0, "Align folder...", "Compare edges with another TextGrid...", 1, "align_folder.praat"

Add action command: "LongSound", 1, "TextGrid", 1, "", 0, "ctc-align -", "", 0, ""
Add action command: "LongSound", 1, "TextGrid", 1, "", 0, "Align text of TextGrid...", "ctc-align -", 1, "align_textgrid.praat"
Add action command: "LongSound", 1, "TextGrid", 1, "", 0, "Realign around my corrections...", "Align text of TextGrid...", 1, "realign.praat"
Add action command: "LongSound", 1, "TextGrid", 1, "", 0, "Compare edges with another TextGrid...", "Realign around my corrections...", 1, "compare.praat"

Add action command: "TextGrid", 1, "", 0, "", 0, "ctc-align -", "", 0, ""
Add action command: "TextGrid", 1, "", 0, "", 0, "Compare edges with another TextGrid...", "ctc-align -", 1, "compare.praat"

Add action command: "TextGrid", 2, "", 0, "", 0, "ctc-align -", "", 0, ""
Add action command: "TextGrid", 2, "", 0, "", 0, "Compare edges with another TextGrid...", "ctc-align -", 1, "compare.praat"

Add menu command: "Objects", "Open", "ctc-align: align folder...", "", 0, "align_folder.praat"
