# Align all recordings of a folder with the texts beside them.

form Align a folder
	comment Recordings with texts of the same name beside them (talk.wav, talk.txt or talk.TextGrid).
	comment Leave the folder empty to choose it.
	sentence Folder
	comment Where the TextGrids go. Leave it empty for FOLDER-aligned, beside the folder.
	sentence Output_folder
	comment Language: en, de, pt-BR ... Leave it empty to detect it in each text.
	sentence Language
	boolean Words 1
	boolean Phones 1
	boolean Syllables 0
	boolean Sentences 0
	optionmenu Labels_of_phones: 1
		option as the model has them
		option arpabet
		option ipa
endform

include job.praat

@fullPath: folder$
folder$ = fullPath.result$
if folder$ = ""
	nocheck setWorkingDirectory: homeDirectory$
	folder$ = chooseDirectory$: "A folder of recordings with their texts"
	if folder$ = ""
		exitScript: "No folder was chosen."
	endif
endif
if right$ (folder$, 1) = "/" or right$ (folder$, 1) = "\"
	folder$ = left$ (folder$, length (folder$) - 1)
endif
@fullPath: output_folder$
output_folder$ = fullPath.result$
if output_folder$ = ""
	output_folder$ = folder$ + "-aligned"
endif
@newJob
@argument: "corpus"
@argument: folder$
@option: "--format", "textgrid,json"
@option: "--out-dir", output_folder$
@tierOptions
@run: "aligning " + folder$
# Some utterances may have failed (1); the messages name them.
if run.code <> 1 or not fileReadable (output_folder$ + "/summary.json")
	@requireResult
endif
writeInfoLine: output$, messages$
appendInfoLine: "The TextGrids are in ", output_folder$
