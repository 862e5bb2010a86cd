# Align a Sound with a text: a TextGrid appears in the list.

form Align with a text
	comment The text. Leave it empty to choose a text file.
	text Text
	comment Language: en, de, pt-BR ... Leave it empty to detect it in the text.
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

file$ = ""
if text$ = ""
	@chooseFile: "The text of the recording"
	file$ = chooseFile.path$
	if file$ = ""
		exitScript: "There is no text to align."
	endif
endif
@newJob
@saveSound
@argument: "align"
@argument: sound_name$ + ".wav"
if file$ = ""
	writeFile: job_folder$ + "/text.txt", text$
	file$ = "text.txt"
endif
@argument: file$
@option: "--format", "textgrid,json"
@option: "--out-dir", "out"
@tierOptions
@jobLine: "keep", kept_folder$ + tab$
@run: "aligning " + sound_name$ + " (" + sound_seconds$ + " seconds of sound)"
@requireResult
@readTextGrid
