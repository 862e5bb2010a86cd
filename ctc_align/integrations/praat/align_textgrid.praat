# Align a Sound with the text in a tier of a TextGrid: the tier stays, words and phones are added.

form Align with the text of the TextGrid
	comment The tier with the text. Leave it empty to let ctc-align find it.
	sentence Tier
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

@newJob
@saveSound
@saveTextGrid: tier$, "text.TextGrid"
@argument: "align"
@argument: sound_name$ + ".wav"
@argument: "text.TextGrid"
@option: "--format", "textgrid,json"
@option: "--out-dir", "out"
@tierOptions
@jobLine: "keep", kept_folder$ + tab$
@run: "aligning " + sound_name$ + " (" + sound_seconds$ + " seconds of sound)"
@requireResult
@readTextGrid
